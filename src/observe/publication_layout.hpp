// The bytes of a publication's file, shared by the side that writes and the side that reads. A reader trusts nothing in
// it: it copies with pread, so that a file that shrinks cannot kill it, and checks every number it uses.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "observe/publication.hpp"

namespace tiermap {

/// The file's first bytes. `magic` is written last.
struct PublishedHeader {
  static constexpr std::uint64_t magic_value = 0x3130'5041'4D52'4954;  ///< "TIRMAP01" in memory.
  static constexpr std::uint32_t version_value = 2;                    ///< Of the layout; another one is not read.

  std::atomic<std::uint64_t> magic;
  std::uint32_t version;
  std::uint32_t counters;  ///< counter_count of the writer, and so on: they are part of the layout.
  std::uint32_t stages;
  std::uint32_t max_regions;
  std::uint64_t file_bytes;
  std::uint64_t process_start;  ///< In clock ticks since boot: tells a process from a later one of the same number.
  std::int32_t process;
  std::uint32_t instance;
  char name[64];
  char policy[32];
  char fault_mode[32];
  std::atomic<std::uint32_t> slots_used;  ///< No slot from here on was ever in use.
};

struct PublishedCache {
  PublishedHeader header;
  CounterBlock counters;
  PublishedRegion regions[Publication::max_regions];
};
static_assert(std::is_standard_layout_v<PublishedCache>, "offsets are taken of its members");

/// What the name of a file says: "tiermap.<user>.<process>.<instance>".
struct PublicationName {
  uid_t user = 0;
  pid_t process = 0;
  std::uint32_t instance = 0;
};
std::string format_publication_name(const PublicationName& name);
/// Nothing if it is not such a name.
std::optional<PublicationName> parse_publication_name(std::string_view text);

/// Removes the files in `folder` of this user's processes that are no more: those that ended without destructors.
void remove_abandoned_publications(const std::string& folder);

}  // namespace tiermap
