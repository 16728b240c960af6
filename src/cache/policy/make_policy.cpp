#include "cache/policy/make_policy.hpp"

#include <array>
#include <string>

#include "cache/eviction_policy.hpp"
#include "cache/policy/cyclic.hpp"
#include "cache/policy/fifo.hpp"
#include "cache/policy/hot_fifo.hpp"
#include "cache/policy/lru.hpp"
#include "cache/policy/segmented_fifo.hpp"
#include "cache/policy/small_main.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

namespace {

constexpr std::uint32_t largest_share_percent = 75;

struct NamedMaker {
  std::string_view name;
  std::unique_ptr<EvictionPolicy> (*make)(const PolicyOptions&);
};

template <typename Policy>
std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return std::make_unique<Policy>(options);
}

constexpr std::array makers{
    NamedMaker{"fifo", make<Fifo>},
    NamedMaker{"lru", make<Lru>},
    NamedMaker{"hot-fifo", make<HotFifo>},
    NamedMaker{"segmented-fifo", make<SegmentedFifo>},
    NamedMaker{"small-main", make<SmallMain>},
    NamedMaker{"cyclic", make<Cyclic>},
};

constexpr auto names = [] {
  std::array<std::string_view, makers.size()> result{};
  for (std::size_t index = 0; index < makers.size(); ++index) {
    result[index] = makers[index].name;
  }
  return result;
}();

void check_share(std::string_view what, std::uint32_t percent) {
  if (percent > largest_share_percent) {
    throw OptionError(std::string(what) + " " + std::to_string(percent) + " % is too large: choose 0 to " +
                      std::to_string(largest_share_percent));
  }
}

}  // namespace

std::span<const std::string_view> policy_names() {
  return names;
}

std::unique_ptr<EvictionPolicy> make_eviction_policy(std::string_view name, const PolicyOptions& options) {
  check_share("hot share", options.hot_share_percent);
  check_share("unmapped share", options.unmapped_share_percent);
  std::string known;
  for (const NamedMaker& maker : makers) {
    if (maker.name == name) {
      return maker.make(options);
    }
    known += (known.empty() ? "" : ", ") + std::string(maker.name);
  }
  throw OptionError("policy \"" + std::string(name) + "\" is unknown: choose one of " + known);
}

}  // namespace tiermap
