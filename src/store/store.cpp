// What a Store does unless it says otherwise: read-only, of fixed size, reached through read() alone.
#include "tiermap/store.hpp"

#include <cerrno>

namespace tiermap {

std::int64_t Store::write(const void*, std::size_t, std::uint64_t) {
  return -EROFS;
}

void Store::score(std::uint64_t, std::uint64_t, double, std::uint64_t) noexcept {}

double Store::read_microseconds(std::uint64_t, std::uint64_t) const noexcept {
  return 0;
}

void Store::show_tiers(PublishedTiers&, bool) noexcept {}

int Store::resize(std::uint64_t) {
  return -ENOTSUP;
}

int Store::punch(std::uint64_t, std::uint64_t) {
  return -ENOTSUP;
}

bool Store::locate_read(std::uint64_t, std::uint64_t, Extent&) const noexcept {
  return false;
}

bool Store::locate_write(std::uint64_t, std::uint64_t, Extent&) noexcept {
  return false;
}

}  // namespace tiermap
