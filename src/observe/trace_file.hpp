// The file that TIERMAP_TRACE makes: what one cache's eviction policy was told, in order. A header, then words of 8
// bytes, each a record; a record that describes a region is followed by words of its own. Whatever a file holds,
// reading it ends in records that can be or in one line that says what is wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <istream>
#include <optional>
#include <string>
#include <unordered_map>

namespace tiermap {

/// What a record tells. The numbers are the file's.
enum class TraceKind : std::uint8_t {
  region = 0,       ///< A region begins; `page` words follow that describe it. With `write` it is the bytes of the
                    ///< region whose number is one less, in pages of another size: both are one to the program.
  fill = 1,         ///< Accessed while absent, and filled.
  read_ahead = 2,   ///< Filled before anyone asked: no access.
  rescue = 3,       ///< Accessed while unmapped but in its frame.
  first_use = 4,    ///< The first access to a page that was read ahead.
  first_write = 5,  ///< The first write to a clean page that was mapped.
  told = 6,         ///< The AccessSource says that it was accessed.
  evicted = 7,
  discarded = 8,   ///< Gone at the program's wish, or with its region.
  region_end = 9,  ///< The region has been unmapped.
  lost = 10,       ///< Here `page` records are missing: the file took them slower than they came.
  end = 11,        ///< The cache has ended. Nothing follows.
};

/// Whether the record is an access of the program's.
constexpr bool is_access(TraceKind kind) noexcept {
  return kind == TraceKind::fill || (kind >= TraceKind::rescue && kind <= TraceKind::told);
}

/// One record, and its word: kind (4 bits), write (1), region (23), page (36), from the top.
struct TraceRecord {
  TraceKind kind = TraceKind::end;
  bool write = false;
  std::uint32_t region = 0;
  std::uint64_t page = 0;
  bool operator==(const TraceRecord&) const = default;

  static constexpr std::uint32_t most_region = (1U << 23U) - 1;
  static constexpr std::uint64_t most_page = (std::uint64_t{1} << 36U) - 1;
  static constexpr std::uint64_t last_kind = static_cast<std::uint64_t>(TraceKind::end);

  constexpr std::uint64_t word() const noexcept {
    return static_cast<std::uint64_t>(kind) << 60U | std::uint64_t{write} << 59U | std::uint64_t{region} << 36U | page;
  }
  /// Requires a kind that is known.
  static constexpr TraceRecord from(std::uint64_t word) noexcept {
    return {static_cast<TraceKind>(word >> 60U), (word >> 59U & 1U) != 0,
            static_cast<std::uint32_t>(word >> 36U) & most_region, word & most_page};
  }
};

/// The file's first bytes, in the machine's own order.
struct TraceHeader {
  static constexpr std::uint64_t magic_value = 0x4543'4152'544D'4954;  ///< "TIMTRACE" in memory.
  static constexpr std::uint32_t version_value = 1;

  std::uint64_t magic = magic_value;
  std::uint32_t version = version_value;
  std::uint32_t header_bytes = 0;  ///< Where the records begin.
  std::uint64_t budget_bytes = 0;  ///< Of the cache when recording began.
  std::int64_t process = 0;
  std::uint64_t process_start = 0;  ///< In clock ticks since boot.
  std::array<char, 24> policy{};
};
static_assert(sizeof(TraceHeader) == 64);

/// What follows a record of kind `region`.
struct TraceRegion {
  static constexpr std::size_t name_bytes = 112;

  std::uint64_t page_bytes = 0;
  std::uint64_t length_bytes = 0;       ///< When it was mapped.
  std::array<char, name_bytes> name{};  ///< Of its store; cut off at the front if longer.
};
inline constexpr std::uint64_t trace_region_words = sizeof(TraceRegion) / sizeof(std::uint64_t);

/// Reads a trace record by record.
class TraceReader {
 public:
  /// Opens the file. Throws OptionError, one line, if it is no trace of this version.
  explicit TraceReader(const std::string& path);
  /// Reads from a stream, which must outlive this; `name` is for messages.
  TraceReader(std::istream& input, std::string name);

  const TraceHeader& header() const noexcept { return header_; }
  /// The next record, regions and the end among them; nothing after the last one. Throws OptionError that names the
  /// place if there is none that can be: a page of a region that was not described, a word cut in two.
  std::optional<TraceRecord> next();
  /// Of the regions met so far, by their number.
  const TraceRegion& region(std::uint32_t number) const;
  /// The first of the regions that have the same bytes in pages of several sizes: often the region itself.
  std::uint32_t first_of_same_bytes(std::uint32_t number) const;
  /// Whether the record `end` was met. If not, the process was killed before its cache ended.
  bool complete() const noexcept { return complete_; }

 private:
  void read_header();
  bool read(void* data, std::size_t bytes);
  bool read_region(const TraceRecord& record);
  [[noreturn]] void refuse(const std::string& problem) const;

  std::ifstream file_;
  std::istream& input_;
  std::string name_;
  TraceHeader header_;
  struct Described {
    TraceRegion region;
    std::uint32_t first_of_same_bytes = 0;
  };
  std::unordered_map<std::uint32_t, Described> regions_;  ///< By number.
  std::uint64_t position_ = 0;
  bool complete_ = false;
};

}  // namespace tiermap
