// Reading a log, and what to make of one that does not end well.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "tiermap/error.hpp"
#include "ycsb/log_frames.hpp"
#include "ycsb/redo_log.hpp"

namespace tiermap {
namespace {

constexpr const char* remedy_for_log = "bring back a copy of pool and log that were made together";

class LogReader {
 public:
  LogReader(const LogContents& log, std::uint64_t identity, std::uint64_t pool_bytes)
      : log_(log), identity_(identity), pool_bytes_(pool_bytes) {}

  void check_header() const {
    LogHeader header;
    const LogHeader expected;
    if (log_.bytes < sizeof(header)) {
      refuse(fmt::format("is too short to be a pool's log: {}", remedy_for_log));
    }
    log_.read(0, std::as_writable_bytes(std::span(&header, 1)));
    if (std::memcmp(header.magic, expected.magic, sizeof(header.magic)) != 0) {
      refuse(fmt::format("is no pool's log: {}", remedy_for_log));
    }
    if (header.version != LogHeader::current_version) {
      refuse(fmt::format("is a log of version {}, and this program knows version {}: use the program that made it",
                         header.version, LogHeader::current_version));
    }
    if (header.checksum != header.computed_checksum()) {
      refuse(fmt::format("has a damaged header: {}", remedy_for_log));
    }
    if (header.identity != identity_) {
      refuse(fmt::format("is the log of another pool: {}", remedy_for_log));
    }
  }

  /// Calls `each` with each frame's payload. Returns where the last whole frame ends.
  std::uint64_t for_each_frame(const std::function<void(std::uint64_t offset, std::span<const std::byte>)>& each) {
    std::uint64_t offset = sizeof(LogHeader);
    std::optional<std::uint64_t> number;
    while (const std::optional<FrameHead> head = head_at(offset)) {
      if (number.has_value() && head->number != *number + 1) {
        refuse(fmt::format("is damaged at byte {}: frame {} follows frame {}; {}", offset, head->number, *number,
                           remedy_for_log));
      }
      if (!read_payload(*head, offset)) {
        break;
      }
      number = head->number;
      each(offset, payload_);
      offset += sizeof(FrameHead) + head->payload_bytes;
    }
    return offset;
  }

  /// A later frame shows that what is not whole at `offset` was committed.
  void refuse_damage_at(std::uint64_t offset) const {
    for (std::uint64_t later = offset + 8; later + sizeof(FrameHead) <= log_.bytes; later += 8) {
      if (head_at(later).has_value()) {
        refuse(
            fmt::format("is damaged at byte {}: a committed frame is not whole there, and others follow at byte {}; "
                        "{}",
                        offset, later, remedy_for_log));
      }
    }
  }

  void check_changes(std::uint64_t offset, std::span<const std::byte> payload) const {
    while (!payload.empty()) {
      ChangeHead head;
      if (payload.size() < sizeof(head)) {
        refuse_changes(offset);
      }
      std::memcpy(&head, payload.data(), sizeof(head));
      payload = payload.subspan(sizeof(head));
      const bool inside = head.bytes <= payload.size() && head.bytes <= pool_bytes_ && head.offset >= first_change &&
                          head.offset <= pool_bytes_ - head.bytes;
      if (!inside || head.bytes == 0 || head.bytes % 8 != 0 || head.offset % 8 != 0) {
        refuse_changes(offset);
      }
      payload = payload.subspan(static_cast<std::size_t>(head.bytes));
    }
  }

 private:
  static constexpr std::uint64_t first_change = 4096;  // The pool's header never changes.

  [[noreturn]] void refuse(const std::string& why) const {
    throw StoreError(EINVAL, fmt::format("{} {}", log_.name, why));
  }
  [[noreturn]] void refuse_changes(std::uint64_t offset) const {
    refuse(fmt::format("is damaged at byte {}: it changes what is not in the pool; {}", offset, remedy_for_log));
  }

  std::optional<FrameHead> head_at(std::uint64_t offset) const {
    FrameHead head;
    if (offset + sizeof(head) > log_.bytes) {
      return std::nullopt;
    }
    log_.read(offset, std::as_writable_bytes(std::span(&head, 1)));
    if (head.magic != FrameHead::expected_magic || head.head_checksum != head.computed_checksum(identity_)) {
      return std::nullopt;
    }
    return head;
  }
  bool read_payload(const FrameHead& head, std::uint64_t offset) {
    if (head.payload_bytes > log_.bytes - offset - sizeof(head)) {
      return false;
    }
    payload_.resize(static_cast<std::size_t>(head.payload_bytes));
    log_.read(offset + sizeof(head), payload_);
    return checksum_of(payload_, identity_) == head.payload_checksum;
  }

  const LogContents& log_;
  const std::uint64_t identity_;
  const std::uint64_t pool_bytes_;
  std::vector<std::byte> payload_;
};

}  // namespace

void append_change(std::vector<std::byte>& changes, std::uint64_t offset, std::span<const std::byte> bytes) {
  const ChangeHead head{offset, bytes.size()};
  const std::span<const std::byte> head_bytes = std::as_bytes(std::span(&head, 1));
  changes.insert(changes.end(), head_bytes.begin(), head_bytes.end());
  changes.insert(changes.end(), bytes.begin(), bytes.end());
}

void apply_changes(std::span<const std::byte> changes, std::span<std::byte> pool) noexcept {
  while (!changes.empty()) {
    ChangeHead head;
    std::memcpy(&head, changes.data(), sizeof(head));
    std::memcpy(pool.data() + head.offset, changes.data() + sizeof(head), head.bytes);
    changes = changes.subspan(sizeof(head) + static_cast<std::size_t>(head.bytes));
  }
}

ReplayOutcome replay_log(const LogContents& log, std::uint64_t identity, std::uint64_t pool_bytes,
                         const std::function<void(std::span<const std::byte> changes)>& apply) {
  LogReader reader(log, identity, pool_bytes);
  reader.check_header();
  ReplayOutcome outcome;
  const std::uint64_t end = reader.for_each_frame([&](std::uint64_t offset, std::span<const std::byte> payload) {
    reader.check_changes(offset, payload);
    ++outcome.frames;
  });
  reader.refuse_damage_at(end);
  outcome.ignored_bytes = log.bytes - end;
  reader.for_each_frame([&](std::uint64_t, std::span<const std::byte> payload) { apply(payload); });
  return outcome;
}

}  // namespace tiermap
