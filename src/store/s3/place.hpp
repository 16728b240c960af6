// What an s3: URL says. Nothing here touches the network or a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/store_url.hpp"

namespace tiermap {

/// Where the name of the bucket stands in what the server is asked for.
enum class S3Addressing : std::uint8_t { automatic, path, virtual_host };

struct S3Options {
  std::string endpoint;  ///< "": from the environment or the configuration, else Amazon's.
  std::string region;    ///< The same, else us-east-1.
  std::string profile;   ///< "": the environment's keys, then its profile, or the default one.
  bool anonymous = false;
  S3Addressing addressing = S3Addressing::automatic;
  double timeout_seconds = 30;  ///< Of one request, and a second more for each MiB that it moves.
  double connect_seconds = 5;
  std::uint32_t retries = 5;
  double pause_seconds = 0.1;  ///< Before the first retry; each later one waits twice as long, up to 5 s.
  std::uint64_t part_bytes = 8 << 20;
  std::uint32_t max_reads_in_flight = 0;  ///< 0: no cap.
  std::uint32_t max_writes_in_flight = 4;
};

/// s3://bucket/key
struct S3Place {
  std::string bucket;
  std::string key;  ///< Decoded: any bytes but zero.
  S3Options options;
  std::string url;  ///< As it was written, for messages.
};

/// Throws StoreError (EINVAL).
S3Place parse_s3_place(const StoreUrl& url);

/// As S3 writes a key where it signs: all but letters, digits, `-._~` and the slash as percent codes.
std::string encode_s3_key(std::string_view key);

}  // namespace tiermap
