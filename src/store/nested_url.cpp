#include "store/nested_url.hpp"

#include <algorithm>
#include <cerrno>

#include "store/registry.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Of "?a=1&b=2", as it stands there, what is not the format's.
std::string options_behind(std::string_view query, std::initializer_list<std::string_view> format_options,
                           std::string_view url) {
  std::string behind;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view option = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::string name = percent_decode(option.substr(0, option.find('=')), url);
    if (std::find(format_options.begin(), format_options.end(), name) == format_options.end()) {
      behind += (behind.empty() ? "?" : "&") + std::string(option);
    }
  }
  return behind;
}

}  // namespace

std::optional<NestedUrl> parse_nested_url(const StoreUrl& url, std::initializer_list<std::string_view> format_options,
                                          bool with_part) {
  if (!url.host.empty() || !names_store(url.path)) {
    return std::nullopt;
  }
  NestedUrl nested{url, url.path, ""};
  // Behind the host, which may have a port.
  const std::size_t path = url.path.find('/', url.path.find("://") + 3);
  if (const std::size_t colon = url.path.find(':', path);
      with_part && path != std::string::npos && colon != std::string::npos) {
    nested.part = url.path.substr(colon + 1);
    nested.store.resize(colon);
    if (nested.part.find(':') != std::string::npos) {
      refuse_second_colon(url);
    }
  }
  std::erase_if(nested.format.options, [&](const auto& option) {
    return std::find(format_options.begin(), format_options.end(), option.first) == format_options.end();
  });
  const std::size_t question = url.text.find('?');
  nested.store += options_behind(
      question == std::string::npos ? std::string_view() : std::string_view(url.text).substr(question + 1),
      format_options, url.text);
  return nested;
}

std::shared_ptr<Store> open_nested(const NestedUrl& url, OpenMode mode, std::string_view what) {
  if (mode != OpenMode::read_only) {
    throw StoreError(EROFS, "store '" + url.format.text + "': " + std::string(what) +
                                " in another store are only read: open it read-only, or copy it to a file");
  }
  return open_store(url.store, OpenMode::read_only, NewStore());
}

bool leads_to_scheme(std::string_view url, std::string_view scheme) {
  for (std::string text(url); !text.empty();) {
    const StoreUrl parsed = parse_store_url(text);
    if (parsed.scheme == scheme || (names_store(parsed.path) && parse_store_url(parsed.path).scheme == scheme)) {
      return true;
    }
    text.clear();
    for (const auto& [name, value] : parsed.options) {
      text = name == "store" ? value : text;
    }
  }
  return false;
}

}  // namespace tiermap
