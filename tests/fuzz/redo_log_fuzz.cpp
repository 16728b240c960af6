// Whatever a redo log holds, it is refused with a StoreError or changes only what is in the pool. The input is a log;
// then it is the payload of a log's only frame, whose checksums are right.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "tiermap/error.hpp"
#include "ycsb/log_frames.hpp"
#include "ycsb/redo_log.hpp"

namespace {

constexpr std::uint64_t identity = 1;
constexpr std::uint64_t header_bytes = 4096;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void replay(std::span<const std::byte> bytes) {
  const tiermap::LogContents log{"log", bytes.size(), [&](std::uint64_t offset, std::span<std::byte> into) {
                                   require(offset <= bytes.size() && into.size() <= bytes.size() - offset);
                                   std::ranges::copy(bytes.subspan(offset, into.size()), into.begin());
                                 }};
  std::vector<std::byte> pool(2 * header_bytes);
  std::uint64_t applied = 0;
  try {
    const tiermap::ReplayOutcome outcome =
        tiermap::replay_log(log, identity, pool.size(), [&](std::span<const std::byte> changes) {
          tiermap::apply_changes(changes, pool);
          ++applied;
        });
    require(applied == outcome.frames && outcome.ignored_bytes < bytes.size());
    for (std::uint64_t byte = 0; byte < header_bytes; ++byte) {
      require(pool[byte] == std::byte{0});
    }
  } catch (const tiermap::StoreError& error) {
    require(applied == 0);
    require(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  replay(input);
  tiermap::LogHeader header;
  header.identity = identity;
  header.checksum = header.computed_checksum();
  tiermap::FrameHead head;
  head.payload_bytes = size;
  head.payload_checksum = tiermap::checksum_of(input, identity);
  head.head_checksum = head.computed_checksum(identity);
  std::vector<std::byte> log(sizeof(header) + sizeof(head) + size);
  std::memcpy(log.data(), &header, sizeof(header));
  std::memcpy(log.data() + sizeof(header), &head, sizeof(head));
  if (size > 0) {
    std::memcpy(log.data() + sizeof(header) + sizeof(head), data, size);
  }
  replay(log);
  return 0;
}
