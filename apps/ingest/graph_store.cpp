#include "ingest/graph_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "command_line/backing.hpp"
#include "config/size.hpp"
#include "store/store_url.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_segment = 4096;

/// A path as a URL has it.
std::string percent_encode(const std::string& path) {
  std::string encoded;
  for (const char letter : path) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool plain = std::isalnum(byte) != 0 || std::string("/._-").find(letter) != std::string::npos;
    encoded += plain ? std::string(1, letter) : fmt::format("%{:02X}", byte);
  }
  return encoded;
}

}  // namespace

std::string choose_store(const std::string& file, std::optional<std::uint64_t> segments) {
  if (!segments.has_value()) {
    return file.empty() ? scratch_path("tiermap-ingest", "graph") : file;
  }
  if (file.empty()) {
    return "sparse:" + percent_encode(scratch_path("tiermap-ingest", "graph"));
  }
  const StoreUrl url = parse_store_url(file);
  if (url.scheme != "sparse") {
    throw OptionError(
        fmt::format("{} has no segments, and --segments is for stores that do: name one such as "
                    "sparse:graph with --file, or leave --segments out",
                    file));
  }
  if (std::any_of(url.options.begin(), url.options.end(),
                  [](const auto& option) { return option.first == "segment"; })) {
    throw OptionError(
        fmt::format("{} says how large a segment is, and --segments how many there are: choose one of "
                    "them",
                    file));
  }
  return file;
}

std::uint64_t segment_bytes_for(std::uint64_t bytes, std::uint64_t segments) noexcept {
  const std::uint64_t share = (bytes + segments - 1) / segments;
  return std::max(least_segment, (share + least_segment - 1) / least_segment * least_segment);
}

std::string with_segment_bytes(const std::string& url, std::uint64_t segment_bytes) {
  const char* separator = parse_store_url(url).options.empty() ? "?" : "&";
  return fmt::format("{}{}segment={}", url, separator, format_size(segment_bytes));
}

}  // namespace tiermap
