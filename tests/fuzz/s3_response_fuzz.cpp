// Whatever a server answers, and whatever stands in a file of profiles: what is made of it is bounded and of one line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "store/s3/response.hpp"
#include "store/s3/settings.hpp"

namespace {

void require_of_s3(bool condition) {
  if (!condition) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // Lines of the head, an empty one, the body.
  tiermap::S3Response response;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + (line.size() < rest.size() ? 1 : 0));
    if (line.empty()) {
      break;
    }
    tiermap::note_s3_header(line, response);
  }
  response.body = rest;
  require_of_s3(response.status >= 0 && response.status < 1000 && response.kept_headers.size() <= 64);
  const tiermap::S3Failure failure = tiermap::explain_s3(response);
  require_of_s3(failure.text().find_first_of("\r\n") == std::string::npos && failure.text().size() < 1000);
  require_of_s3(failure.error_number == 0 || response.status == 0 || !(failure.said.empty() || failure.remedy.empty()));
  if (const auto range = tiermap::parse_s3_range(response.content_range)) {
    require_of_s3(range->first <= range->last && range->last < range->total);
  }
  require_of_s3(tiermap::s3_element(response.body, "ETag").size() <= response.body.size());
  for (const auto& [section, values] : tiermap::parse_s3_profiles(text)) {
    for (const auto& [name, value] : values) {
      require_of_s3((section + name + value).find('\n') == std::string::npos);
    }
  }
  return 0;
}
