#include "store/s3/place.hpp"

#include <cerrno>

#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_part_bytes = 5 << 20;  // S3's own limits.
constexpr std::uint64_t most_part_bytes = 5ULL << 30;
constexpr std::uint64_t part_multiple_bytes = 1 << 20;
constexpr std::size_t most_key_bytes = 1024;
constexpr std::uint32_t most_retries = 100;
constexpr double most_seconds = 3600;

[[noreturn]] void refuse_place(const StoreUrl& url, const std::string& why) {
  throw StoreError(EINVAL, "store '" + url.text + "': " + why);
}

bool is_plain_character(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9') || character == '-' || character == '.' || character == '_';
}

bool is_bucket(std::string_view name) {
  for (const char character : name) {
    if (!is_plain_character(character)) {
      return false;
    }
  }
  return !name.empty() && name != "." && name != "..";
}

S3Options parse_s3_options(const StoreUrl& url) {
  UrlOptions options(url);
  S3Options s3;
  s3.endpoint = options.text("endpoint");
  s3.region = options.text("region");
  s3.profile = options.text("profile");
  s3.anonymous = options.choice("anonymous", {"off", "on"}) == "on";
  const std::string addressing = options.choice("addressing", {"automatic", "path", "virtual"});
  s3.addressing = addressing == "path"      ? S3Addressing::path
                  : addressing == "virtual" ? S3Addressing::virtual_host
                                            : S3Addressing::automatic;
  s3.timeout_seconds = options.seconds("timeout", s3.timeout_seconds, most_seconds);
  s3.connect_seconds = options.seconds("connect_timeout", s3.connect_seconds, most_seconds);
  s3.retries = options.count("retries", s3.retries);
  s3.pause_seconds = options.seconds("pause", s3.pause_seconds, most_seconds);
  s3.part_bytes = options.size("part", s3.part_bytes);
  s3.max_reads_in_flight = options.count("max_reads");
  s3.max_writes_in_flight = options.count("max_writes", s3.max_writes_in_flight);
  options.finish();
  return s3;
}

}  // namespace

S3Place parse_s3_place(const StoreUrl& url) {
  const S3Options options = parse_s3_options(url);
  if (!is_bucket(url.host)) {
    refuse_place(url, url.host.empty() ? "there is no bucket: write s3://bucket/key"
                                       : "'" + url.host + "' is no name of a bucket: write s3://bucket/key");
  }
  const std::string key = percent_decode(url.path.empty() ? "" : std::string_view(url.path).substr(1), url.text);
  if (key.empty() || key.size() > most_key_bytes) {
    refuse_place(url, key.empty() ? "there is no key: write s3://bucket/key"
                                  : "a key of " + std::to_string(key.size()) + " bytes: S3 has none of more than " +
                                        std::to_string(most_key_bytes) + ", write a shorter one");
  }
  if (options.retries > most_retries) {
    refuse_place(url, "retries " + std::to_string(options.retries) + " are too many: choose 0 to " +
                          std::to_string(most_retries));
  }
  if (options.part_bytes < least_part_bytes || options.part_bytes > most_part_bytes ||
      options.part_bytes % part_multiple_bytes != 0) {
    refuse_place(url, "parts of " + format_size(options.part_bytes) +
                          " cannot be uploaded: choose a multiple of 1MiB from 5MiB to 5GiB");
  }
  return {url.host, key, options, url.text};
}

std::string encode_s3_key(std::string_view key) {
  constexpr const char* digits = "0123456789ABCDEF";
  std::string encoded;
  for (const char character : key) {
    const auto byte = static_cast<unsigned char>(character);
    if (is_plain_character(character) || character == '~' || character == '/') {
      encoded += character;
    } else {
      encoded += {'%', digits[byte >> 4U], digits[byte & 15U]};
    }
  }
  return encoded;
}

}  // namespace tiermap
