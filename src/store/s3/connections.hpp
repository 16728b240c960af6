// Requests to one server, each over a connection that an earlier one has left open.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "store/s3/library.hpp"
#include "store/s3/response.hpp"
#include "store/s3/settings.hpp"

namespace tiermap {

struct S3Request {
  const char* method = "GET";
  std::string query;                 ///< Encoded, its names in order, each with '='.
  std::vector<std::string> headers;  ///< "name: value"
  std::span<const char> body;        ///< Of PUT and POST.
  std::span<char> into;              ///< For what a 206 brings; more than that ends the request.
  double seconds = 30;               ///< Until it has to be done.
};

/// Thread-safe: as many requests at once as there are threads, each with a handle of libcurl's, which keeps its
/// connection. A child of fork() begins with new ones: what its parent's connections bring is the parent's.
class S3Connections {
 public:
  S3Connections(const CurlFunctions& curl, S3Settings settings, const S3Options& options);
  ~S3Connections();
  S3Connections(const S3Connections&) = delete;
  S3Connections& operator=(const S3Connections&) = delete;

  /// Where the object is, as a source of copies.
  const std::string& copy_source() const noexcept { return copy_source_; }
  /// How often keys were renewed.
  std::uint64_t renewals() const;
  /// Whether requests are signed with other keys now than after so many renewals, or can be from now on: the profile
  /// may have new ones. May throw std::bad_alloc.
  bool has_newer_keys(std::uint64_t renewals);
  /// Once, and not again. May throw std::bad_alloc.
  S3Response send(const S3Request& request);

 private:
  class Handle;
  CURL* take();
  void give_back(CURL* handle) noexcept;
  void leave_to_parent() noexcept;
  std::vector<std::string> signature_of(const S3Request& request) const;

  const CurlFunctions& curl_;
  mutable std::mutex keys_mutex_;
  S3Settings settings_;         ///< Guarded by keys_mutex_.
  std::uint64_t renewals_ = 0;  ///< Guarded by keys_mutex_.
  const std::string object_url_;
  const std::string copy_source_;
  const std::string host_;  ///< And port.
  const std::string path_;  ///< Encoded.
  const double connect_seconds_;
  std::mutex mutex_;
  std::vector<CURL*> idle_;
  pid_t process_;
};

}  // namespace tiermap
