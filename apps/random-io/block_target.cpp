#include "random-io/block_target.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "parallel/random.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

class MappedTarget final : public BlockTarget {
 public:
  MappedTarget(std::span<std::uint64_t> words, std::uint64_t block_bytes, std::uint64_t seed)
      : words_(words), block_words_(block_bytes / sizeof(std::uint64_t)), seed_(seed) {}

  bool access(BlockAccess access, std::uint32_t) override {
    std::uint64_t* const block = words_.data() + access.block * block_words_;
    if (access.write) {  // First: an access to an absent page that begins with a store is one fault, not two.
      std::atomic_ref(block[count_word]).fetch_add(1, std::memory_order_relaxed);
    }
    return std::atomic_ref(block[name_word]).load(std::memory_order_relaxed) == block_name(seed_, access.block);
  }

 private:
  std::span<std::uint64_t> words_;
  std::uint64_t block_words_;
  std::uint64_t seed_;
};

class DirectTarget final : public BlockTarget {
 public:
  DirectTarget(const std::string& path, std::uint64_t block_bytes, std::uint64_t seed, std::uint32_t threads)
      : path_(path), descriptor_(::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC)), seed_(seed) {
    if (descriptor_ < 0) {
      throw StoreError(errno, path + " cannot be opened for direct I/O: " + std::generic_category().message(errno));
    }
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      buffers_.emplace_back(block_bytes);
    }
  }
  DirectTarget(const DirectTarget&) = delete;
  DirectTarget& operator=(const DirectTarget&) = delete;
  ~DirectTarget() override { ::close(descriptor_); }

  bool access(BlockAccess access, std::uint32_t thread) override {
    const std::span<std::uint64_t> block = buffers_[thread].as_span<std::uint64_t>();
    const auto offset = static_cast<off_t>(access.block * block.size_bytes());
    if (!access.write) {
      check(::pread(descriptor_, block.data(), block.size_bytes(), offset), block.size_bytes(), "read");
      return block[name_word] == block_name(seed_, access.block);
    }
    // Of two threads that change one block at a time one would be lost.
    const std::lock_guard held(locks_[access.block % locks_.size()]);
    check(::pread(descriptor_, block.data(), block.size_bytes(), offset), block.size_bytes(), "read");
    const bool right = block[name_word] == block_name(seed_, access.block);
    ++block[count_word];
    check(::pwrite(descriptor_, block.data(), block.size_bytes(), offset), block.size_bytes(), "written");
    return right;
  }

 private:
  void check(ssize_t done, std::size_t wanted, const char* what) const {
    if (done != static_cast<ssize_t>(wanted)) {
      const int number = done < 0 ? errno : EIO;
      throw StoreError(number,
                       fmt::format("{} cannot be {}: {}", path_, what, std::generic_category().message(number)));
    }
  }

  std::string path_;
  int descriptor_;
  std::uint64_t seed_;
  std::vector<AlignedBuffer> buffers_;
  std::array<std::mutex, 1024> locks_;
};

}  // namespace

std::uint64_t block_name(std::uint64_t seed, std::uint64_t block) noexcept {
  return random_word(seed, block);
}

std::unique_ptr<BlockTarget> mapped_target(std::span<std::uint64_t> words, std::uint64_t block_bytes,
                                           std::uint64_t seed) {
  return std::make_unique<MappedTarget>(words, block_bytes, seed);
}

std::unique_ptr<BlockTarget> direct_target(const std::string& path, std::uint64_t block_bytes, std::uint64_t seed,
                                           std::uint32_t threads) {
  return std::make_unique<DirectTarget>(path, block_bytes, seed, threads);
}

}  // namespace tiermap
