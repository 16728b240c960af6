#include "store/s3/client.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

namespace tiermap {
namespace {

constexpr double longest_pause_seconds = 5;
constexpr double bytes_a_second = 1 << 20;               ///< At least, of what a request moves.
constexpr std::uint64_t most_put_together = 1ULL << 30;  ///< Larger objects take the server no longer.

/// Not all at once where many were refused at once.
void pause(double seconds) {
  thread_local std::minstd_rand random(std::random_device{}());
  const double share = std::uniform_real_distribution<double>(0.5, 1)(random);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds * share));
}

std::string range_text(std::uint64_t first, std::uint64_t bytes) {
  return "bytes=" + std::to_string(first) + "-" + std::to_string(first + bytes - 1);
}

/// There was one when it was opened.
S3Failure of_a_known_one(S3Failure failure) {
  if (failure.error_number == ENOENT) {
    failure.error_number = ESTALE;
    failure.remedy = "it has been removed since it was opened: open what is there now";
  }
  return failure;
}

std::string condition_of(const S3Client::Change& change) {
  return change.from.exists() ? "If-Match: " + change.from.etag : "If-None-Match: *";
}

/// Upload ids may have any characters.
std::string encode_query(std::string_view text) {
  std::string encoded = encode_s3_key(text);
  for (std::size_t at = encoded.find('/'); at != std::string::npos; at = encoded.find('/', at)) {
    encoded.replace(at, 1, "%2F");
  }
  return encoded;
}

S3Failure refuse_answer(const std::string& what) {
  return {EIO, false, false, what, "check endpoint and proxy"};
}

std::vector<std::string> headers_of(const S3Client::Change& change) {
  std::vector<std::string> headers = change.from.kept_headers;
  const bool typed = std::any_of(headers.begin(), headers.end(),
                                 [](const std::string& header) { return header.starts_with("content-type:"); });
  if (!typed) {
    headers.emplace_back("content-type: application/octet-stream");
  }
  headers.push_back("x-amz-meta-tiermap-commit: " + change.commit);
  return headers;
}

}  // namespace

S3Failure S3Client::ask(S3Request request, std::uint64_t moved_bytes, S3Response& response) {
  request.seconds = options_.timeout_seconds + static_cast<double>(moved_bytes) / bytes_a_second;
  double seconds = options_.pause_seconds;
  bool renewed = false;
  for (std::uint32_t attempt = 0;;) {
    const std::uint64_t renewals = connections_.renewals();
    response = connections_.send(request);
    S3Failure failure = explain_s3(response);
    if (failure.error_number == EACCES && !std::exchange(renewed, true) && connections_.has_newer_keys(renewals)) {
      continue;
    }
    if (failure.error_number == 0 && response.received < request.into.size() && response.status == 206) {
      failure = {EIO, true, false,
                 "the answer ended after " + std::to_string(response.received) + " bytes of " +
                     std::to_string(request.into.size()),
                 ""};
    }
    if (!failure.passing || attempt == options_.retries) {
      if (failure.passing) {
        failure.said += ", " + std::to_string(attempt + 1) + (attempt == 0 ? " try" : " tries");
        failure.remedy = "check endpoint and network, or choose more retries";
      }
      return failure;
    }
    pause(seconds);
    ++attempt;
    seconds = std::min(seconds * 2, longest_pause_seconds);
  }
}

S3Failure S3Client::find(S3Version& version) {
  // Not HEAD, to which the answer has no room for a reason.
  char first = 0;
  S3Request request;
  request.headers = {"Range: bytes=0-0"};
  request.into = {&first, 1};
  S3Response response;
  S3Failure failure = ask(request, 1, response);
  const bool empty = response.status == 416;
  if (failure.error_number != 0 && !empty) {
    return failure;
  }
  if (empty) {  // An answer that says no need not say what of.
    request.headers.clear();
    request.into = {};
    failure = ask(request, 0, response);
    if (failure.error_number != 0) {
      return failure;
    }
  }
  const std::optional<S3Range> range = parse_s3_range(response.content_range);
  if (empty ? response.status != 200 || !response.body.empty() : response.status != 206 || !range || range->last != 0) {
    return refuse_answer("the server answers status " + std::to_string(response.status) + " and range '" +
                         s3_line(response.content_range) + "' when asked for the first byte");
  }
  if (!response.etag.starts_with('"')) {
    return {ENOTSUP, false, false, "the server gives it no ETag of its content, by which changes would show",
            "use another one"};
  }
  version = {response.etag, empty ? 0 : range->total, response.commit, response.kept_headers};
  return {};
}

S3Failure S3Client::read(const S3Version& version, std::span<char> buffer, std::uint64_t offset) {
  S3Request request;
  request.headers = {"Range: " + range_text(offset, buffer.size()), "If-Match: " + version.etag};
  request.into = buffer;
  S3Response response;
  S3Failure failure = of_a_known_one(ask(request, buffer.size(), response));
  if (failure.error_number != 0) {
    return failure;
  }
  if (response.status == 200) {
    return {ENOTSUP, false, false, "the server ignores which range is asked for", "use another one"};
  }
  const std::optional<S3Range> range = parse_s3_range(response.content_range);
  if (response.status != 206 || !range || range->first != offset || range->last != offset + buffer.size() - 1) {
    return refuse_answer("the server answers status " + std::to_string(response.status) + " and range '" +
                         s3_line(response.content_range) + "' when asked for " + range_text(offset, buffer.size()));
  }
  if (response.etag != version.etag || range->total != version.bytes) {
    return {
        ESTALE, false, false,
        "it has changed since it was opened (ETag " + s3_line(version.etag) + " is " + s3_line(response.etag) + " now)",
        "open it again"};
  }
  return {};
}

// Where an answer was lost, the object itself says whether the change was made.
S3Failure S3Client::made_of(const Change& change, S3Failure failure, std::string etag, std::uint64_t bytes,
                            S3Version& made) {
  if (failure.error_number == 0 && etag.starts_with('"')) {
    made = {std::move(etag), bytes, change.commit, change.from.kept_headers};
    return failure;
  }
  S3Version now;
  S3Failure found = find(now);
  if (found.error_number == 0 && now.commit == change.commit && now.bytes == bytes) {
    made = now;
    return {};
  }
  if (change.from.exists()) {
    failure = of_a_known_one(std::move(failure));
  }
  if (failure.error_number != 0) {
    return failure;
  }
  const bool known = found.error_number == 0 || found.error_number == ENOENT;
  return known ? refuse_answer("the server says it is written, and it is not") : found;
}

S3Failure S3Client::put(const Change& change, std::span<const char> content, S3Version& made) {
  S3Request request;
  request.method = "PUT";
  request.headers = headers_of(change);
  request.headers.push_back(condition_of(change));
  request.body = content;
  S3Response response;
  const S3Failure failure = ask(request, content.size(), response);
  // S3 says nothing else here: a page has other senders, such as a proxy that wants a password, whatever its ETag.
  const bool trusted = response.status == 200 && response.body.empty();
  return made_of(change, failure, trusted ? response.etag : "", content.size(), made);
}

S3Failure S3Client::begin_upload(const Change& change, std::string& upload) {
  S3Request request;
  request.method = "POST";
  request.query = "uploads=";
  request.headers = headers_of(change);
  S3Response response;
  S3Failure failure = ask(request, 0, response);
  upload = s3_element(response.body, "UploadId");
  return failure.error_number == 0 && upload.empty() ? refuse_answer("the server begins no upload") : failure;
}

S3Failure S3Client::upload_part(const std::string& upload, std::span<const char> content, Part& part) {
  S3Request request;
  request.method = "PUT";
  request.query = "partNumber=" + std::to_string(part.number) + "&uploadId=" + encode_query(upload);
  request.headers = {"content-type: application/octet-stream"};
  request.body = content;
  S3Response response;
  S3Failure failure = ask(request, content.size(), response);
  part.etag = response.etag;
  return failure.error_number == 0 && part.etag.empty() ? refuse_answer("the server gives a part no ETag") : failure;
}

S3Failure S3Client::copy_part(const Change& change, const std::string& upload, Part& part) {
  S3Request request;
  request.method = "PUT";
  request.query = "partNumber=" + std::to_string(part.number) + "&uploadId=" + encode_query(upload);
  request.headers = {"content-type: application/octet-stream", "x-amz-copy-source: " + connections_.copy_source(),
                     "x-amz-copy-source-if-match: " + change.from.etag,
                     "x-amz-copy-source-range: " + range_text(part.offset, part.bytes)};
  S3Response response;
  S3Failure failure = of_a_known_one(ask(request, part.bytes, response));
  part.etag = s3_element(response.body, "ETag");
  return failure.error_number == 0 && part.etag.empty() ? refuse_answer("the server gives a copied part no ETag")
                                                        : failure;
}

S3Failure S3Client::complete_upload(const Change& change, const std::string& upload, std::span<const Part> parts,
                                    S3Version& made) {
  std::string list = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  std::uint64_t bytes = 0;
  for (const Part& part : parts) {
    list += "<Part><PartNumber>" + std::to_string(part.number) + "</PartNumber><ETag>" + part.etag + "</ETag></Part>";
    bytes += part.bytes;
  }
  list += "</CompleteMultipartUpload>";
  S3Request request;
  request.method = "POST";
  request.query = "uploadId=" + encode_query(upload);
  request.headers = {"content-type: application/xml", condition_of(change)};
  request.body = list;
  S3Response response;
  const S3Failure failure = ask(request, std::min(bytes, most_put_together), response);
  return made_of(change, failure, s3_element(response.body, "ETag"), bytes, made);
}

void S3Client::give_up_upload(const std::string& upload) {
  S3Request request;
  request.method = "DELETE";
  request.query = "uploadId=" + encode_query(upload);
  S3Response response;
  ask(request, 0, response);
}

}  // namespace tiermap
