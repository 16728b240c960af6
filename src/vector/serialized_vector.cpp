#include "tiermap/serialized_vector.hpp"

#include "store/store_url.hpp"

namespace tiermap {

std::string default_index_url(const std::string& url) {
  const StoreUrl parsed = parse_store_url(url);
  if (parsed.scheme.empty()) {
    return url + ".index";
  }
  if (parsed.scheme != "file" && parsed.scheme != "sparse") {
    throw OptionError("vector " + url + " has no place for its index beside it: say index_url");
  }
  std::string index = url;
  return index.insert(std::min(url.find('?'), url.size()), ".index");
}

}  // namespace tiermap
