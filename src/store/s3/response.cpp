#include "store/s3/response.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "platform/control_characters.hpp"

namespace tiermap {
namespace {

constexpr std::size_t most_header_bytes = 4096;
constexpr std::size_t most_kept_headers = 64;
constexpr std::size_t most_line_bytes = 200;
constexpr std::string_view kept_names[] = {"content-type",        "content-encoding", "content-language",
                                           "content-disposition", "cache-control",    "expires"};

std::string small(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char character) {
    return character >= 'A' && character <= 'Z' ? static_cast<char>(character - 'A' + 'a') : character;
  });
  return lower;
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

bool take_number(std::string_view& text, std::uint64_t& number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc()) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) {
    return false;
  }
  text.remove_prefix(expected.size());
  return true;
}

std::string decode_entities(std::string_view text) {
  constexpr std::pair<std::string_view, char> entities[] = {
      {"&quot;", '"'}, {"&#34;", '"'}, {"&amp;", '&'}, {"&apos;", '\''}, {"&#39;", '\''}, {"&lt;", '<'}, {"&gt;", '>'}};
  std::string decoded;
  while (!text.empty()) {
    const auto* const found = std::find_if(std::begin(entities), std::end(entities),
                                           [&](const auto& entity) { return text.starts_with(entity.first); });
    const bool is_entity = found != std::end(entities);
    decoded += is_entity ? found->second : text.front();
    text.remove_prefix(is_entity ? found->first.size() : 1);
  }
  return decoded;
}

/// What S3 calls a failure, as errno has it, and what to do about it.
struct Reason {
  std::string_view code;
  int error_number;
  std::string_view remedy;
};
constexpr std::string_view new_keys =
    "write new temporary keys into the profile, from where they are taken, or, with those of the environment, open it "
    "again with new ones";
constexpr Reason reasons[] = {
    {"NoSuchKey", ENOENT, "check the key, or create it"},
    {"NoSuchBucket", ENOENT, "check bucket, endpoint and region"},
    {"NoSuchUpload", ESTALE, "flush again"},
    {"AccessDenied", EACCES, "sign with keys that may do it (s3:GetObject, s3:PutObject), or check bucket and key"},
    {"AllAccessDisabled", EACCES, "sign with keys that may do it"},
    {"InvalidAccessKeyId", EACCES, "check the access key, and that it is one of this endpoint"},
    {"SignatureDoesNotMatch", EACCES, "check the secret key and the region"},
    {"ExpiredToken", EACCES, new_keys},
    {"InvalidToken", EACCES, "check AWS_SESSION_TOKEN, or aws_session_token of the profile"},
    {"TokenRefreshRequired", EACCES, new_keys},
    {"RequestTimeTooSkewed", EACCES, "set this machine's clock"},
    {"InvalidObjectState", EACCES, "it is archived: restore it first"},
    {"PreconditionFailed", ESTALE, "it has changed since it was opened: open it again"},
    {"InvalidRange", ESTALE, "it has become shorter since it was opened: open it again"},
    {"ConditionalRequestConflict", ESTALE, "somebody else writes it: flush again"},
    {"EntityTooLarge", EFBIG, "the server takes no object of that size"},
    {"NotImplemented", ENOTSUP, "this server lacks what writing safely takes: use another one"},
    {"QuotaExceeded", EDQUOT, "make room"},
    {"XMinioStorageFull", ENOSPC, "make room"},
};

Reason reason_of(const S3Response& response, std::string_view code) {
  for (const Reason& reason : reasons) {
    if (reason.code == code) {
      return reason;
    }
  }
  switch (response.status) {
    case 401:
    case 403:
      return {"", EACCES, "sign with keys that may do it, or check bucket and key"};
    case 404:
      return {"", ENOENT, "check bucket and key"};
    case 412:
      return {"", ESTALE, "it has changed since it was opened: open it again"};
    case 416:
      return {"", ESTALE, "it has become shorter since it was opened: open it again"};
    case 501:
      return {"", ENOTSUP, "this server lacks what is asked for: use another one"};
    case 507:
      return {"", ENOSPC, "make room"};
    default:
      return {"", EIO, "check endpoint, region and the server"};
  }
}

bool may_pass(long status, std::string_view code) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504 ||
         code == "RequestTimeout" || code == "SlowDown" || code == "InternalError" || code == "ServiceUnavailable";
}

}  // namespace

std::string s3_line(std::string_view text) {
  std::string line(text.substr(0, most_line_bytes));
  hide_control_characters(line);
  return line + (text.size() > most_line_bytes ? "..." : "");
}

void note_s3_header(std::string_view line, S3Response& response) {
  line = without_blanks(line);
  if (line.starts_with("HTTP/")) {
    response = S3Response();
    line.remove_prefix(std::min(line.find(' '), line.size()));
    line = without_blanks(line);
    std::uint64_t status = 0;
    response.status = take_number(line, status) && status < 1000 ? static_cast<long>(status) : 0;
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || line.size() > most_header_bytes) {
    return;
  }
  const std::string name = small(without_blanks(line.substr(0, colon)));
  const std::string value(without_blanks(line.substr(colon + 1)));
  if (name == "etag") {
    response.etag = value;
  } else if (name == "content-range") {
    response.content_range = value;
  } else if (name == "x-amz-bucket-region") {
    response.region = value;
  } else if (name == "x-amz-meta-tiermap-commit") {
    response.commit = value;
  } else if ((name.starts_with("x-amz-meta-") ||
              std::find(std::begin(kept_names), std::end(kept_names), name) != std::end(kept_names)) &&
             !value.empty() && response.kept_headers.size() < most_kept_headers) {
    response.kept_headers.push_back(name + ": " + value);
  }
}

std::optional<S3Range> parse_s3_range(std::string_view text) {
  S3Range range;
  if (take(text, "bytes ") && take_number(text, range.first) && take(text, "-") && take_number(text, range.last) &&
      take(text, "/") && take_number(text, range.total) && text.empty() && range.first <= range.last &&
      range.last < range.total) {
    return range;
  }
  return std::nullopt;
}

std::string s3_element(std::string_view xml, std::string_view name) {
  const std::string begin = "<" + std::string(name) + ">";
  const std::size_t from = xml.find(begin);
  if (from == std::string_view::npos) {
    return "";
  }
  const std::string_view rest = xml.substr(from + begin.size());
  const std::size_t end = rest.find("</" + std::string(name) + ">");
  return end == std::string_view::npos ? "" : decode_entities(without_blanks(rest.substr(0, end)));
}

S3Failure explain_s3(const S3Response& response) {
  if (response.status == 0) {
    return {response.lost_error != 0 ? response.lost_error : EIO, response.passing, false, response.lost,
            response.lost_remedy};
  }
  const std::string code = s3_element(response.body, "Code");
  // A server may begin to answer, and find out later.
  const bool late = response.status < 300 && !code.empty() && response.body.find("<Error") != std::string::npos;
  if (response.status >= 200 && response.status < 300 && !late) {
    return {};
  }
  const Reason reason = reason_of(response, code);
  const std::string message = s3_element(response.body, "Message");
  std::string said = code.empty() ? "status " + std::to_string(response.status) : code;
  said += message.empty() ? "" : " (" + message + ")";
  S3Failure failure{reason.error_number, may_pass(response.status, code),
                    code == "ConditionalRequestConflict" || response.status == 409, s3_line(said),
                    std::string(reason.remedy)};
  std::string region = s3_element(response.body, "Region");
  region = region.empty() ? response.region : region;
  if (response.status == 301 || response.status == 307 || code == "AuthorizationHeaderMalformed") {
    failure.error_number = EINVAL;
    failure.remedy = region.empty() ? "the bucket is elsewhere: write its region and endpoint into the URL"
                                    : "the bucket is in another region: write region=" + s3_line(region);
  }
  return failure;
}

}  // namespace tiermap
