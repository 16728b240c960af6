// What clients and memory servers say to each other, in messages of wire/wire.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tiermap {

/// Requests. A refusal has a negative errno value as status and one line of text as body.
enum class MemoryRequest : std::uint16_t {
  list = 1,  ///< Body: a name, or "" for all that the user may read. Reply's body: lines, see DataSetLine.
  create,    ///< Words: bytes, 1 for what is gone when who makes it has let go of it. Body: CreateForm.
  drop,      ///< Body: name.
  attach,    ///< Words: 1 to write. Body: name. Reply's words: handle; body: DataSetFacts.
  detach,    ///< Words: handle.
  read,      ///< Words: handle, offset, bytes. Reply's body: the bytes, fewer where the data set ends.
  write,     ///< Words: handle, offset. Body: the bytes. Reply's words: how many.
  flush,     ///< Words: handle.
  resize,    ///< Words: handle, bytes here, bytes of the whole.
  punch,     ///< Words: handle, offset, bytes.
  renew,     ///< Words: handle, version. The content is that, and copies that missed a write are of an older one.
  /// Words: handle, offset. Body: what a copy has of a block that is damaged here. -EAGAIN: it is something else.
  mend,
  /// Words: handle. Body: ScoredRanges. A hint of who has it attached, however; nobody waits for the reply.
  score,
  keep,      ///< Words: handle. What was to be gone when who made it has let go of it stays.
  announce,  ///< Words: handle, version. It may come to be that of copies elsewhere: nobody is to take it for another.
};

/// How a data set lies on its servers. Each server keeps what it was told, so that nobody opens it as something else.
struct DataSetLayout {
  enum class Kind : std::uint32_t { single, striped, replicated };
  Kind kind = Kind::single;
  std::uint32_t servers = 1;
  std::uint32_t index = 0;   ///< Of this server among them.
  std::uint32_t copies = 1;  ///< Of each byte.
  std::uint64_t stripe_bytes = 0;

  bool same_but_index(const DataSetLayout& other) const noexcept {
    return kind == other.kind && servers == other.servers && copies == other.copies &&
           stripe_bytes == other.stripe_bytes;
  }
  /// "striped over 3 servers, 1 copy, stripes of 1MiB".
  std::string text() const;
};

struct DataSetFacts {
  std::uint64_t identity = 0;  ///< Drawn when it was made: another data set of the same name has another.
  std::uint64_t version = 0;   ///< As renew said last.
  std::uint64_t bytes = 0;     ///< Here.
  std::uint64_t whole_bytes = 0;
  std::uint64_t read_nanoseconds = 0;  ///< DataSet::read_nanoseconds(): 0 where no scores are wanted.
  std::uint64_t announced = 0;         ///< The latest version that this server has heard of.
  DataSetLayout layout;
};

std::vector<std::byte> encode(const DataSetFacts& facts);
std::optional<DataSetFacts> decode_facts(std::span<const std::byte> body);

struct CreateForm {
  std::string name;
  std::string place;  ///< "memory", "directory", or "": the first that the server has.
  std::vector<std::string> readers;
  std::vector<std::string> writers;
  std::uint64_t whole_bytes = 0;
  std::uint64_t identity = 0;  ///< The same on all servers.
  DataSetLayout layout;
};

std::vector<std::byte> encode(const CreateForm& form);
std::optional<CreateForm> decode_form(std::span<const std::byte> body);

/// How soon a transaction will need a part of what lies on one server: Store::score(), as it travels.
struct ScoredRange {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint16_t score = 0;   ///< 65,535 is 1.
  std::uint16_t sharer = 0;  ///< Of the client's.
};
/// Of one message.
inline constexpr std::size_t most_scored_ranges = 1000;
inline constexpr std::uint64_t most_scored_bytes = std::uint64_t{1} << 30U;
/// What DataSetFacts::read_nanoseconds is said of.
inline constexpr std::uint64_t read_estimate_bytes = 64 << 10;

/// Returns 0, -EPROTO for what is no such list, or -ERANGE for one that says too much, or leaves a data set of `limit`
/// bytes.
int decode_scores(std::span<const std::byte> body, std::uint64_t limit, std::vector<ScoredRange>& ranges);

/// One data set as list tells of it.
struct DataSetLine {
  std::string name;
  std::uint64_t bytes = 0;
  std::string owner;
  std::string place;
  std::uint64_t readers = 0;  ///< Attached now.
  std::uint64_t writers = 0;
  std::string layout;
  std::uint64_t whole_bytes = 0;  ///< On all its servers.
  std::uint64_t damaged = 0;      ///< How often a block was found that is not what was written.
  std::uint64_t mended = 0;       ///< How many of these got their bytes back from a copy.
};
std::string encode(const std::vector<DataSetLine>& lines);
std::vector<DataSetLine> decode_lines(std::string_view text);

inline constexpr std::size_t longest_plain_name = 64;
/// Names of data sets and users: letters, digits, '.', '_', '-', not with '.' in front, at most 64.
bool is_plain_name(std::string_view name) noexcept;

}  // namespace tiermap
