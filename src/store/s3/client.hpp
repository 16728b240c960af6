// What is asked of S3 about one object, each as often as it takes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/s3/connections.hpp"
#include "store/s3/place.hpp"

namespace tiermap {

/// An object as it is at one time.
struct S3Version {
  std::string etag;  ///< Empty: there is none.
  std::uint64_t bytes = 0;
  std::string commit;  ///< Whose write made it, see S3Client::Change.
  std::vector<std::string> kept_headers;

  bool exists() const noexcept { return !etag.empty(); }
};

/// Thread-safe. A request that fails in a way that may pass (no answer, too slow an answer, 408, 429, 5xx but 501) is
/// sent again, up to `retries` times, after pauses that double. One that is refused for want of rights is sent again at
/// once where the profile has other keys by now.
class S3Client {
 public:
  S3Client(const CurlFunctions& curl, const S3Place& place, S3Settings settings)
      : options_(place.options), url_(place.url), connections_(curl, std::move(settings), place.options) {}

  const std::string& url() const noexcept { return url_; }
  const S3Options& options() const noexcept { return options_; }

  /// The object as it is now. ENOENT if there is none.
  S3Failure find(S3Version& version);
  /// Fills the buffer from that version of the object; ESTALE if there is another by now.
  S3Failure read(const S3Version& version, std::span<char> buffer, std::uint64_t offset);

  /// What replaces an object: only the version that was known, or none, and with a mark by which it is known again
  /// where the answer was lost.
  struct Change {
    S3Version from;
    std::string commit;
  };
  S3Failure put(const Change& change, std::span<const char> content, S3Version& made);

  struct Part {
    std::uint32_t number = 0;  ///< From 1 on.
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    bool copied = false;  ///< From the version that was known.
    std::string etag;
  };
  S3Failure begin_upload(const Change& change, std::string& upload);
  S3Failure upload_part(const std::string& upload, std::span<const char> content, Part& part);
  S3Failure copy_part(const Change& change, const std::string& upload, Part& part);
  /// Until then nobody sees anything of it.
  S3Failure complete_upload(const Change& change, const std::string& upload, std::span<const Part> parts,
                            S3Version& made);
  /// So that the parts take no room. What fails here has to be left.
  void give_up_upload(const std::string& upload);

 private:
  S3Failure ask(S3Request request, std::uint64_t moved_bytes, S3Response& response);
  S3Failure made_of(const Change& change, S3Failure failure, std::string etag, std::uint64_t bytes, S3Version& made);

  const S3Options options_;
  const std::string url_;
  S3Connections connections_;
};

}  // namespace tiermap
