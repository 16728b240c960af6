// URLs: what they mean, and that each bad one gives one line with the value and the remedy, and creates nothing.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "cluster/schemes.hpp"
#include "store/reference_check.hpp"
#include "store/store_url.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

TEST(OpenStore, every_scheme_opens) {
  const TemporaryDirectory directory;
  const std::string path = directory.path();
  const std::string encoded = directory.encoded();
  EXPECT_EQ(open_store("file://" + encoded + "/a", OpenMode::create, 100)->size_bytes(), 100U);
  EXPECT_EQ(open_store("file:" + encoded + "/a", OpenMode::read_only)->size_bytes(), 100U);
  EXPECT_EQ(open_store("FILE://localhost" + encoded + "/a?direct=off", OpenMode::read_only)->direct_alignment(), 1U);
  EXPECT_EQ(open_store(path + "/a", OpenMode::read_write)->size_bytes(), 100U);
  EXPECT_EQ(open_store("memory:3MiB", OpenMode::create)->size_bytes(), 3U << 20);
  EXPECT_EQ(open_store("memory:", OpenMode::create, 77)->size_bytes(), 77U);
  EXPECT_FALSE(open_store("memory:4KiB", OpenMode::read_only)->writable());
  const std::string sparse = "sparse://" + encoded + "/s";
  EXPECT_EQ(open_store(sparse + "?segment=64KiB&capacity=1GiB", OpenMode::create, 5)->size_bytes(), 5U);
  EXPECT_EQ(open_store(sparse, OpenMode::read_only)->size_bytes(), 5U);
  EXPECT_EQ(open_store("concat://" + encoded + "/a," + encoded + "/a@10+20", OpenMode::read_only)->size_bytes(), 120U);
}

TEST(OpenStore, a_pattern_for_which_there_are_no_descriptors_says_so) {
  const TemporaryDirectory directory;
  write_file(directory / "a", "x");
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct rlimit none = {0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string message;
  int error_number = 0;
  try {
    open_store("file://" + directory.encoded() + "/*", OpenMode::read_only);
  } catch (const StoreError& error) {
    message = error.what();
    error_number = error.code().value();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(error_number, EMFILE);
  EXPECT_NE(message.find("/*': a directory of the pattern cannot be read: "), std::string::npos) << message;
  EXPECT_NE(message.find("raise the limit of open files"), std::string::npos) << message;
}

TEST(OpenStore, caps_are_passed_on_by_every_scheme_over_files) {
  const TemporaryDirectory directory;
  write_file(directory / "a", "x");
  const std::string caps = "?max_reads=3&max_writes=7";
  for (const std::string& url : {"file://" + directory.encoded() + "/a", "concat://" + directory.encoded() + "/a",
                                 "file://" + directory.encoded() + "/*", "sparse://" + directory.encoded() + "/s"}) {
    const bool sparse = url.starts_with("sparse");
    const auto store = open_store(url + caps, sparse ? OpenMode::create : OpenMode::read_write, sparse ? 4096 : 0);
    EXPECT_EQ(store->max_reads_in_flight(), 3U) << url;
    EXPECT_EQ(store->max_writes_in_flight(), 7U) << url;
  }
}

TEST(OpenStore, any_file_name_can_be_written) {
  const TemporaryDirectory directory;
  const std::string odd = "a b,c@1?d=e*[%41]#\\";
  write_file(directory / odd, "odd");
  EXPECT_EQ(open_store(directory / odd, OpenMode::read_only)->size_bytes(), 3U);  // A plain path is taken as it is.
  const std::string encoded = directory.encoded() + "/a%20b%2Cc%401%3fd=e%2A%5B%2541%5D#%5C";
  EXPECT_EQ(open_store("file://" + encoded, OpenMode::read_only)->size_bytes(), 3U);
  EXPECT_EQ(open_store("concat://" + encoded + "," + encoded + "@1", OpenMode::read_only)->size_bytes(), 5U);
  write_file(directory / "a1[x", "12345");
  // What is encoded is no wild card, also beside one.
  EXPECT_EQ(open_store("file://" + directory.encoded() + "/a*%5Bx", OpenMode::read_only)->size_bytes(), 5U);
}

struct BadOpen {
  std::string url;
  OpenMode mode;
  int error;
  std::string remedy;
  std::string value = {};  ///< What the message has to name if it is neither the URL nor the path in it.
};

/// The path that a URL names: no scheme in front, no part or option behind.
std::string path_in(const std::string& url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos) {
    return url;
  }
  const std::string path = url.substr(scheme + 3);
  return percent_decode(path.substr(0, path.find_first_of("?@,")), url);
}

/// Whether the message names what was refused.
bool names(const std::string& message, const BadOpen& bad) {
  if (!bad.value.empty()) {
    return message.find(bad.value) != std::string::npos;
  }
  return message.find("'" + bad.url + "'") != std::string::npos || message.starts_with(bad.url) ||
         message.find(path_in(bad.url) + " ") != std::string::npos ||
         message.find(path_in(bad.url) + ":") != std::string::npos;
}

TEST(OpenStore, bad_input_is_one_line_with_value_and_remedy_and_creates_nothing) {
  const TemporaryDirectory directory;
  const std::string path = directory.path();
  const std::string encoded = directory.encoded();
  write_file(path + "/file", "content");
  write_file(path + "/empty", "");
  ASSERT_EQ(::mkfifo((path + "/fifo").c_str(), 0600), 0);
  ASSERT_TRUE(std::filesystem::create_directory(path + "/directory"));
  const OpenMode reading = OpenMode::read_only;
  const OpenMode writing = OpenMode::read_write;
  const OpenMode creating = OpenMode::create;
  const BadOpen table[] = {
      {"", reading, EINVAL, "name a file or a URL"},
      {path + "/missing", reading, ENOENT, "that its folder is there"},
      {path + "/directory", writing, EISDIR, "name a file"},
      {path + "/fifo", reading, EINVAL, "is a FIFO and cannot be read at an offset: name a regular file"},
      {path + "/file/below", reading, ENOTDIR, "not a directory"},
      {"/dev/zero", reading, EINVAL, "name a regular file or a block device"},
      {path + "/file", creating, EEXIST, "open it instead"},
      {path + "/none/file", creating, ENOENT, "check the path"},
      {"ftp://host/x", reading, ENOTSUP,
       "choose among concat, csv, file, fits, hdf5, memory, npy, parquet, remote, s3, sparse"},
      {"npy://" + encoded + "/file", reading, EINVAL, "write one with numpy.save()"},
      {"run:1.bin", reading, ENOTSUP, "./run:1.bin"},
      {"file://", reading, EINVAL, "no path: write file:///path"},
      {"file://server/x", reading, EINVAL, "file:///path"},
      {"file://" + encoded + "/file?color=red", reading, EINVAL, "'color' is unknown to file: choose among direct"},
      {"file://" + encoded + "/file?direct", reading, EINVAL, "write ?name=value"},
      {"file://" + encoded + "/file?direct=maybe", reading, EINVAL,
       "store 'file://" + encoded + "/file?direct=maybe': direct 'maybe' is neither on nor off: choose one"},
      {"concat:s3://bucket/x", reading, EINVAL, "'s3:' names a store where a file would be: copy it to a file"},
      {"csv:ftp://host/table.csv?type=int32", reading, ENOTSUP, "scheme 'ftp' is unknown", "ftp://host/table.csv"},
      {"file://" + encoded + "/file?direct=on&direct=off", reading, EINVAL, "leave one out"},
      {"file://" + encoded + "/file?max_reads=-1", reading, EINVAL,
       "'-1' is no count: choose 0 (no cap) to 4294967295"},
      {"file://" + encoded + "/file?max_writes=9999999999", reading, EINVAL, "choose 0 (no cap) to 4294967295"},
      {"file://" + encoded + "/fi%6", reading, EINVAL, "'%6' is no percent code: write %25"},
      {"file://" + encoded + "/fi%zz", reading, EINVAL, "'%zz' is no percent code: write %25"},
      {"file://" + encoded + "/fi%00", reading, EINVAL, "leave it out"},
      {"file://" + encoded + "/*.none", reading, ENOENT, "no file matches: check the pattern"},
      {"file://" + encoded + "/nowhere/*.none", reading, ENOENT, "no file matches: check the pattern"},
      {"file://" + encoded + "/*", creating, EINVAL, "cannot be created as one: create each"},
      {"concat://" + encoded + "/file,", reading, EINVAL, "empty name among the files: write concat:///a,/b"},
      {"concat://" + encoded + "/file@", reading, EINVAL, "an '@' in a name is %40"},
      {"concat://" + encoded + "/file@x", reading, EINVAL, "%40"},
      {"concat://" + encoded + "/file@1+0", reading, EINVAL, "leave it out"},
      {"concat://" + encoded + "/file@1+7", reading, EINVAL, "choose a part within the file"},
      {"concat://" + encoded + "/empty", reading, EINVAL, "name one that is not"},
      {"concat://" + encoded + "/file," + encoded + "/file", writing, EINVAL, "choose parts that do not overlap"},
      {"memory:10XB", creating, EINVAL, "'10XB' is not a size: write a number and a unit"},
      {"memory:", creating, EINVAL, "memory:1GiB"},
      {"memory://1GiB", creating, EINVAL, "memory:1GiB"},
      {"concat://", reading, EINVAL, "concat:///a,/b"},
      {"memory:1PiB", creating, ENOMEM, "choose at most 64TiB", "1125899906842624 bytes"},
      {"memory:1GiB?direct=off", creating, EINVAL, "option 'direct' is unknown to memory: it takes none"},
      {"sparse://", creating, EINVAL, "no path: write sparse:///directory"},
      {"sparse://" + encoded + "/new?segment=5000&capacity=1MiB", creating, EINVAL,
       "multiple of 4KiB up to 4EiB: choose one such as 256MiB"},
      {"sparse://" + encoded + "/new", creating, EINVAL, "capacity=1TiB"},
      {"sparse://" + encoded + "/new?capacity=8EiB", creating, EINVAL,
       "'8EiB' is not a size: write a number and a unit"},
      {"sparse://" + encoded + "/new?segment=4KiB&capacity=1TiB", creating, EMFILE, "choose segments of"},
      {"sparse://" + encoded + "/directory", writing, ENOENT, "no metadata file: name the directory of a sparse store"},
      {"sparse://" + encoded + "/file", writing, ENOTDIR, "not a directory"},
      {"sparse://" + encoded + "/missing", reading, ENOENT, "that its folder is there"},
      {"sparse://" + encoded + "?capacity=1MiB", creating, ENOTEMPTY, "name an empty or a new one"},
  };
  for (const BadOpen& bad : table) {
    try {
      open_store(bad.url, bad.mode, 0);
      ADD_FAILURE() << bad.url << " was opened";
    } catch (const StoreError& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.code().value(), bad.error) << message;
      EXPECT_TRUE(names(message, bad)) << message << "\nis to name " << bad.url;
      EXPECT_NE(message.find(bad.remedy), std::string::npos) << message << "\nis to say " << bad.remedy;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path)) {
    ++entries;
  }
  EXPECT_EQ(entries, 4U);
  EXPECT_EQ(read_file(path + "/file"), "content");
}

TEST(OpenStore, an_unreadable_file_is_refused) {
  const TemporaryDirectory directory("/tmp");
  write_file(directory / "secret", "x");
  ASSERT_EQ(::chmod((directory / "secret").c_str(), 0), 0);
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // The administrator may read everything; nobody may not.
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) {
      ::_exit(2);
    }
    try {
      open_store(directory / "secret", OpenMode::read_only);
    } catch (const StoreError& error) {
      const bool named = std::string(error.what()).find("check the permissions") != std::string::npos;
      ::_exit(error.code().value() == EACCES && named ? 0 : 1);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
    GTEST_SKIP() << "becoming another user is not permitted";
  }
  EXPECT_EQ(status, 0);
}

TEST(OpenStore, a_sparse_store_disagrees_with_its_url) {
  const TemporaryDirectory directory;
  const std::string url = "sparse://" + directory.encoded() + "/s";
  open_store(url + "?segment=64KiB", OpenMode::create, 1 << 20);
  EXPECT_THROW(open_store(url + "?segment=32KiB", OpenMode::read_write), StoreError);
  EXPECT_THROW(open_store(url + "?capacity=1KiB", OpenMode::read_write), StoreError);
  EXPECT_THROW(open_store(url + "?capacity=1GiB", OpenMode::read_only), StoreError);
  EXPECT_THROW(open_store(url, OpenMode::create, 1 << 20), StoreError);
  EXPECT_NO_THROW(open_store(url + "?segment=64KiB&capacity=1GiB", OpenMode::read_write));
}

TEST(StoreRegistry, takes_schemes_of_others) {
  StoreRegistry registry = built_in_stores();
  registry.add("zero", [](const StoreUrl& url, OpenMode, const NewStore&) {
    return open_store("memory:" + url.path, OpenMode::create);
  });
  EXPECT_EQ(registry.open("zero:8KiB", OpenMode::read_only, {})->size_bytes(), 8192U);
  EXPECT_THROW(open_store("zero:8KiB", OpenMode::read_only), StoreError);
}

}  // namespace
}  // namespace tiermap
