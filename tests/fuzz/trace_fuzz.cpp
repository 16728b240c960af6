// Any text is a list of accesses to blocks that are there, the same when it is written out and read again, or is
// refused with one line.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "random-io/access_sequence.hpp"
#include "tiermap/error.hpp"

namespace {

using tiermap::BlockAccess;

constexpr std::uint64_t blocks = 1000;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// The path of a file in memory that holds the text.
std::string path_of(std::string_view text) {
  static const int descriptor = ::memfd_create("trace", MFD_CLOEXEC);
  require(descriptor >= 0 && ::ftruncate(descriptor, 0) == 0);
  require(::pwrite(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  return "/proc/self/fd/" + std::to_string(descriptor);
}

/// Every access is in the part of the one process whose block it is.
void divide(const std::vector<BlockAccess>& accesses) {
  std::uint64_t divided = 0;
  for (const tiermap::BlockRange range : {tiermap::BlockRange{0, 1}, {1, 400}, {401, blocks - 401}}) {
    const auto sequence = tiermap::recorded_sequence(range, accesses);
    divided += sequence->size();
    for (std::uint64_t index = 0; index < sequence->size(); ++index) {
      require(sequence->at(index).block - range.first < range.count);
    }
  }
  require(divided == accesses.size());
}

void read_again(const std::vector<BlockAccess>& accesses) {
  std::string text;
  for (const BlockAccess& access : accesses) {
    text += (access.write ? "w " : "r ") + std::to_string(access.block) + "\n";
  }
  const std::vector<BlockAccess> again = tiermap::read_trace(path_of(text), blocks);
  require(again.size() == accesses.size());
  for (std::size_t index = 0; index < again.size(); ++index) {
    require(again[index].block == accesses[index].block && again[index].write == accesses[index].write);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::vector<BlockAccess> accesses = tiermap::read_trace(path_of(text), blocks);
    require(!accesses.empty());
    divide(accesses);
    read_again(accesses);
  } catch (const tiermap::OptionError& error) {
    require(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
  }
  return 0;
}
