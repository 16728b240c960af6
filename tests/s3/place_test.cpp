// s3: URLs and what they leave open: parts, options, keys and profiles, and each bad one in one line with the remedy.
#include "store/s3/place.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "s3/strict_server.hpp"
#include "store/s3/settings.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

S3Place place(const std::string& url) {
  return parse_s3_place(parse_store_url(url));
}

template <typename Call>
std::string refusal(Call&& call, int error_number) {
  try {
    call();
  } catch (const StoreError& error) {
    EXPECT_EQ(error.code().value(), error_number) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  ADD_FAILURE() << "it was taken";
  return "";
}

TEST(S3Place, SaysBucketKeyAndOptions) {
  const S3Place plain = place("s3://my.bucket-1/a/b%20c%2Fd");
  EXPECT_EQ(plain.bucket, "my.bucket-1");
  EXPECT_EQ(plain.key, "a/b c/d");
  EXPECT_FALSE(plain.options.anonymous);
  EXPECT_EQ(plain.options.part_bytes, 8U << 20);
  const S3Place full = place(
      "S3://b/k?endpoint=http://h:1&region=r&profile=p&anonymous=on&addressing=virtual&timeout=2.5&connect_timeout=0.5"
      "&retries=0&pause=0.25&part=5MiB&max_reads=3&max_writes=2");
  EXPECT_EQ(full.options.endpoint, "http://h:1");
  EXPECT_EQ(full.options.region, "r");
  EXPECT_EQ(full.options.profile, "p");
  EXPECT_TRUE(full.options.anonymous);
  EXPECT_EQ(full.options.addressing, S3Addressing::virtual_host);
  EXPECT_EQ(full.options.timeout_seconds, 2.5);
  EXPECT_EQ(full.options.connect_seconds, 0.5);
  EXPECT_EQ(full.options.retries, 0U);
  EXPECT_EQ(full.options.pause_seconds, 0.25);
  EXPECT_EQ(full.options.part_bytes, 5U << 20);
  EXPECT_EQ(full.options.max_reads_in_flight, 3U);
  EXPECT_EQ(full.options.max_writes_in_flight, 2U);
}

TEST(S3Place, BadOnesNameTheRemedy) {
  const std::pair<const char*, const char*> table[] = {
      {"s3:///key", "there is no bucket: write s3://bucket/key"},
      {"s3://user@host/key", "'user@host' is no name of a bucket"},
      {"s3://bucket", "there is no key"},
      {"s3://bucket/", "there is no key"},
      {"s3://b/k?part=4MiB", "multiple of 1MiB from 5MiB to 5GiB"},
      {"s3://b/k?part=5243000", "multiple of 1MiB from 5MiB to 5GiB"},
      {"s3://b/k?timeout=0", "'0' is no number of seconds: choose more than 0, at most 3600"},
      {"s3://b/k?timeout=nan", "is no number of seconds"},
      {"s3://b/k?pause=-1", "is no number of seconds"},
      {"s3://b/k?retries=101", "choose 0 to 100"},
      {"s3://b/k?addressing=host", "choose one of automatic, path, virtual"},
      {"s3://b/k?anonymous=yes", "choose one of off, on"},
      {"s3://b/k?direct=off", "option 'direct' is unknown to s3: choose among endpoint"},
  };
  for (const auto& [url, remedy] : table) {
    const std::string said = refusal([text = url] { place(text); }, EINVAL);
    EXPECT_NE(said.find(remedy), std::string::npos) << said;
    EXPECT_NE(said.find(url), std::string::npos) << said;
  }
  refusal([] { place("s3://b/" + std::string(1025, 'k')); }, EINVAL);
}

TEST(S3Place, KeysAreEncodedAsTheyAreSigned) {
  EXPECT_EQ(encode_s3_key("a/b-._~c"), "a/b-._~c");
  EXPECT_EQ(encode_s3_key(" =+%&?#:@\xc3\xa4"), "%20%3D%2B%25%26%3F%23%3A%40%C3%A4");
}

/// The files that Amazon's tools read, in a folder of their own.
class S3SettingsTest : public testing::Test {
 protected:
  S3SettingsTest() {
    StrictServer::clear_environment();
    write_file(directory_ / "credentials",
               "# keys\n[default]\naws_access_key_id = AKDEFAULT\naws_secret_access_key=secret=1\n\n[work]\r\n"
               "aws_access_key_id=AKWORK\r\naws_secret_access_key = s\r\naws_session_token = token\r\n");
    write_file(directory_ / "config",
               "[default]\nregion = eu-west-1\ns3 =\n  addressing_style = path\n[profile work]\nregion=us-west-2\n"
               "endpoint_url = http://work:9000/\n[profile keyless]\nregion = x-1\n");
    ::setenv("AWS_SHARED_CREDENTIALS_FILE", (directory_ / "credentials").c_str(), 1);
    ::setenv("AWS_CONFIG_FILE", (directory_ / "config").c_str(), 1);
  }
  ~S3SettingsTest() override { StrictServer::clear_environment(); }

  static S3Settings settings(const std::string& url) { return find_s3_settings(place(url)); }

  const TemporaryDirectory directory_;
};

TEST_F(S3SettingsTest, ComeFromTheDefaultProfile) {
  const S3Settings found = settings("s3://bucket/key");
  EXPECT_EQ(found.access_key, "AKDEFAULT");
  EXPECT_EQ(found.secret_key, "secret=1");
  EXPECT_EQ(found.session_token, "");
  EXPECT_EQ(found.region, "eu-west-1");
  EXPECT_EQ(found.object_url, "https://bucket.s3.eu-west-1.amazonaws.com/key");
  EXPECT_EQ(found.copy_source, "/bucket/key");
  EXPECT_EQ(settings("s3://dotted.bucket/k").object_url, "https://s3.eu-west-1.amazonaws.com/dotted.bucket/k");
  EXPECT_EQ(settings("s3://bucket/k?addressing=path").object_url, "https://s3.eu-west-1.amazonaws.com/bucket/k");
}

TEST_F(S3SettingsTest, ComeFromAnotherProfileByVariableOrUrl) {
  const S3Settings asked = settings("s3://b/k?profile=work");
  EXPECT_EQ(asked.access_key, "AKWORK");
  EXPECT_EQ(asked.session_token, "token");
  EXPECT_EQ(asked.object_url, "http://work:9000/b/k");
  EXPECT_EQ(asked.region, "us-west-2");
  ::setenv("AWS_PROFILE", "work", 1);
  EXPECT_EQ(settings("s3://b/k").access_key, "AKWORK");
  EXPECT_EQ(settings("s3://b/k?profile=default").access_key, "AKDEFAULT");
}

TEST_F(S3SettingsTest, TheEnvironmentComesBeforeFilesAndTheUrlBeforeBoth) {
  ::setenv("AWS_ACCESS_KEY_ID", "AKENV", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "envsecret", 1);
  ::setenv("AWS_SESSION_TOKEN", "envtoken", 1);
  ::setenv("AWS_REGION", "ap-south-1", 1);
  ::setenv("AWS_ENDPOINT_URL", "http://all:1", 1);
  S3Settings found = settings("s3://b/k");
  EXPECT_EQ(found.access_key, "AKENV");
  EXPECT_EQ(found.session_token, "envtoken");
  EXPECT_EQ(found.region, "ap-south-1");
  EXPECT_EQ(found.object_url, "http://all:1/b/k");
  ::setenv("AWS_ENDPOINT_URL_S3", "http://s3:2", 1);
  EXPECT_EQ(settings("s3://b/k").object_url, "http://s3:2/b/k");
  found = settings("s3://b/k?profile=work&region=r-1&endpoint=https://h&addressing=virtual");
  EXPECT_EQ(found.access_key, "AKWORK");
  EXPECT_EQ(found.region, "r-1");
  EXPECT_EQ(found.object_url, "https://b.h/k");
  EXPECT_EQ(settings("s3://b/k?anonymous=on").access_key, "");
}

TEST_F(S3SettingsTest, WhatIsMissingIsNamed) {
  const auto said = [](const std::string& url, int error_number) {
    return refusal([&] { settings(url); }, error_number);
  };
  EXPECT_NE(said("s3://b/k?profile=keyless", EACCES).find("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
            std::string::npos);
  EXPECT_NE(said("s3://b/k?profile=none", EINVAL).find("profile 'none' is neither in "), std::string::npos);
  EXPECT_NE(said("s3://b/k?endpoint=host:1", EINVAL).find("write http://host:port"), std::string::npos);
  EXPECT_NE(said("s3://b/k?endpoint=http://h/path", EINVAL).find("is no server"), std::string::npos);
  EXPECT_NE(said("s3://b/k?region=a.b", EINVAL).find("write one such as eu-west-1"), std::string::npos);
}

TEST_F(S3SettingsTest, AnEndpointThatIsNoneIsSaidToBe) {
  for (const std::string endpoint :
       {"http://",       "http://:9000",    "http://h:",    "http://h:0",  "http://h:65536", "http://h:9000x",
        "http://h:-1",   "http://a:b:1",    "http://::1",   "http://[::1", "http://[]:1",    "http://[::1]9000",
        "http://user@h", "http://h h",      "http://h%3A1", "http://h\\x", "http://<host>",  "ftp://h",
        "https:/h",      "http://h:1/path", "http://h\nx"}) {
    ::setenv("AWS_ENDPOINT_URL", endpoint.c_str(), 1);
    const std::string said = refusal([] { settings("s3://b/k"); }, EINVAL);
    EXPECT_TRUE(said.ends_with(" is no server: write http://host:port or https://host")) << endpoint << ": " << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
  for (const std::string endpoint : {"http://h", "http://127.0.0.1:65535", "https://a-b.c_d:1", "http://[::1]:9000",
                                     "http://[fe80::1%25eth0]", "http://h:1///"}) {
    ::setenv("AWS_ENDPOINT_URL", endpoint.c_str(), 1);
    EXPECT_TRUE(settings("s3://b/k").object_url.starts_with(endpoint.substr(0, endpoint.find("//", 8)))) << endpoint;
  }
}

// Each store that is opened reads them, and nobody waits for who would write to them.
TEST_F(S3SettingsTest, FilesOfProfilesThatAreNoneAreRefused) {
  const std::string fifo = directory_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, directory_.path()}) {
    for (const std::string variable : {"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"}) {
      const std::string before = std::getenv(variable.c_str());
      ::setenv(variable.c_str(), path.c_str(), 1);
      EXPECT_EQ(refusal([] { settings("s3://b/k"); }, EINVAL),
                "store 's3://b/k': " + variable + " '" + path +
                    "' is no file: name one that holds profiles, or unset the variable");
      ::setenv(variable.c_str(), before.c_str(), 1);
    }
  }
  ::setenv("AWS_CONFIG_FILE", "/dev/null", 1);
  EXPECT_EQ(settings("s3://b/k").region, "us-east-1");
  ::unsetenv("AWS_CONFIG_FILE");
  const char* const old_home = std::getenv("HOME");
  const std::string home = old_home == nullptr ? "" : old_home;
  ::setenv("HOME", directory_.path().c_str(), 1);
  std::filesystem::create_directories(directory_ / ".aws/config");
  EXPECT_EQ(
      refusal([] { settings("s3://b/k"); }, EINVAL),
      "store 's3://b/k': '" + directory_ / ".aws/config" + "' is no file: remove it, or name one that holds profiles");
  ::setenv("HOME", home.c_str(), 1);
}

TEST_F(S3SettingsTest, HalfAPairOfKeysIsNamed) {
  ::setenv("AWS_ACCESS_KEY_ID", "AKENV", 1);
  EXPECT_NE(refusal([] { settings("s3://b/k"); }, EACCES)
                .find("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not: set both"),
            std::string::npos);
  ::unsetenv("AWS_ACCESS_KEY_ID");
  ::setenv("AWS_SECRET_ACCESS_KEY", "envsecret", 1);
  EXPECT_EQ(settings("s3://b/k").access_key, "AKDEFAULT");  // As Amazon's tools do.
  write_file(directory_ / "credentials", "[half]\naws_access_key_id=AKHALF\n");
  EXPECT_NE(refusal([] { settings("s3://b/k"); }, EACCES)
                .find("AWS_SECRET_ACCESS_KEY is set, and AWS_ACCESS_KEY_ID is not: set both"),
            std::string::npos);
  EXPECT_NE(refusal([] { settings("s3://b/k?profile=half"); }, EACCES)
                .find("aws_access_key_id of profile half is set, and aws_secret_access_key of profile half is not"),
            std::string::npos);
}

// They would be lines of their own in what is sent.
TEST_F(S3SettingsTest, KeysWithControlCharactersAreNamed) {
  const char* const names[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"};
  for (const char* bad : names) {
    for (const char* name : names) {
      ::setenv(name, "plain", 1);
    }
    for (const char* value : {"key\n", "key\r\nx-amz-acl: public-read", "k\tey", "key\x7f"}) {
      ::setenv(bad, value, 1);
      const std::string said = refusal([] { settings("s3://b/k"); }, EINVAL);
      EXPECT_NE(said.find(std::string(bad) + " has a line break or another control character in it"), std::string::npos)
          << said;
      EXPECT_EQ(said.find('\n'), std::string::npos);
    }
  }
  write_file(directory_ / "credentials", "[odd]\naws_access_key_id=AK\rODD\naws_secret_access_key=s\n");
  EXPECT_NE(refusal([] { settings("s3://b/k?profile=odd"); }, EINVAL)
                .find("aws_access_key_id of profile odd has a line break"),
            std::string::npos);
}

}  // namespace
}  // namespace tiermap
