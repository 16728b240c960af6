// What an S3 server answers, read as far as it is needed and no further: whatever it sends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tiermap {

struct S3Response {
  long status = 0;  ///< 0: there was no answer, and `lost` says why.
  std::string lost;
  bool passing = false;  ///< Without an answer: another try may get one.
  int lost_error = 0;    ///< The errno value for it.
  const char* lost_remedy = "check the endpoint";
  std::string etag;  ///< With its quotes.
  std::string content_range;
  std::string region;  ///< x-amz-bucket-region.
  std::string commit;  ///< x-amz-meta-tiermap-commit: whose write made the object.
  /// Of the object, to be kept when it is written: its type, and what its owner noted on it.
  std::vector<std::string> kept_headers;
  std::string body;            ///< The first 64 KiB, of what did not go elsewhere.
  std::uint64_t received = 0;  ///< Bytes that went elsewhere.
};

/// Takes a line of the answer's head. A new status line begins a new answer.
void note_s3_header(std::string_view line, S3Response& response);

struct S3Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t total = 0;
};
/// "bytes 0-4095/1000000", which must make sense.
std::optional<S3Range> parse_s3_range(std::string_view text);

/// What stands in the first element of that name, with the five entities decoded; empty if there is none.
std::string s3_element(std::string_view xml, std::string_view name);

/// A request that did not get what it asked for.
struct S3Failure {
  int error_number = 0;   ///< 0: it did.
  bool passing = false;   ///< Another try may get it.
  bool conflict = false;  ///< Somebody else was writing: begin again from the start.
  std::string said;       ///< In one line.
  std::string remedy;

  std::string text() const { return said + ": " + remedy; }
};
S3Failure explain_s3(const S3Response& response);

/// For messages: at most 200 characters, without those that would end the line.
std::string s3_line(std::string_view text);

}  // namespace tiermap
