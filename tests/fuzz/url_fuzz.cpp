// Whatever a URL says, taking it apart ends in its parts or in a StoreError of one line. No file is touched.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "store/nested_url.hpp"
#include "store/store_url.hpp"
#include "tiermap/error.hpp"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void take_apart(std::string_view text) {
  const tiermap::StoreUrl url = tiermap::parse_store_url(text);
  require(url.text == text);
  require(!url.scheme.empty() || (url.path == text && url.options.empty() && url.host.empty()));
  const std::string decoded = tiermap::percent_decode(url.path, url.text);
  require(decoded.find('\0') == std::string::npos && decoded.size() <= url.path.size());
  tiermap::decode_pattern(url.path, url.text);
  for (const tiermap::ConcatPiece& piece : tiermap::parse_concat_pieces(url)) {
    require(!piece.encoded_path.empty());
    require(piece.offset <= tiermap::largest_file_bytes);
    require(!piece.has_bytes || (piece.bytes > 0 && piece.bytes <= tiermap::largest_file_bytes));
  }
  tiermap::UrlOptions options(url);
  options.size("segment", 0);
  options.size("capacity", 0);
  options.file_options();
  options.finish();
}

void take_dataset(std::string_view text) {
  const tiermap::DatasetPlace place = tiermap::parse_dataset_place(tiermap::parse_store_url(text));
  require(!place.file.empty() && (place.dataset.empty() || place.dataset[0] == '/'));
}

void take_nested(std::string_view text) {
  const tiermap::StoreUrl url = tiermap::parse_store_url(text);
  const auto nested = tiermap::parse_nested_url(url, {"type", "columns"}, true);
  if (!nested) {
    return;
  }
  const tiermap::StoreUrl behind = tiermap::parse_store_url(nested->store);
  require(!behind.scheme.empty() && nested->store.size() + nested->part.size() < text.size());
  require(behind.options.size() + nested->format.options.size() == url.options.size());
  require(nested->part.find(':') == std::string::npos);
  for (const auto& option : behind.options) {
    require(option.first != "type" && option.first != "columns");
  }
  tiermap::leads_to_scheme(nested->store, "hdf5");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto take : {take_apart, take_dataset, take_nested}) {
    try {
      take(std::string_view(reinterpret_cast<const char*>(data), size));
    } catch (const tiermap::StoreError& error) {
      require(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
    }
  }
  return 0;
}
