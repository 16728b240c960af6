#include "cluster/server/checked_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cluster/wire/body_checksum.hpp"
#include "cluster/wire/proof.hpp"

namespace tiermap {
namespace {

static_assert(damaged_error == EUCLEAN);

constexpr std::uint64_t block_of(std::uint64_t offset) noexcept {
  return offset / checked_block_bytes;
}

constexpr std::uint64_t blocks_for(std::uint64_t bytes) noexcept {
  return (bytes + checked_block_bytes - 1) / checked_block_bytes;
}

/// Drawn, so that nobody can look for other bytes of the same checksum.
std::uint64_t draw_seed() {
  const WireNonce nonce = draw_nonce();
  std::uint64_t seed = 0;
  std::memcpy(&seed, nonce.data(), sizeof(seed));
  return seed;
}

}  // namespace

/// The turns of all blocks of a range, taken in one order by everybody.
class CheckedStore::Turns {
 public:
  Turns(CheckedStore& store, std::uint64_t first, std::uint64_t last) : store_(store) {
    const std::uint64_t from = first / turn_blocks;
    const std::uint64_t count = std::min(last / turn_blocks - from + 1, turns);
    for (std::uint64_t turn = 0; turn < count; ++turn) {
      taken_ |= 1ULL << ((from + turn) % turns);
    }
    for (std::uint64_t turn = 0; turn < turns; ++turn) {
      if ((taken_ >> turn & 1U) != 0) {
        store_.turns_[turn].lock();
      }
    }
  }
  ~Turns() {
    for (std::uint64_t turn = 0; turn < turns; ++turn) {
      if ((taken_ >> turn & 1U) != 0) {
        store_.turns_[turn].unlock();
      }
    }
  }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

 private:
  CheckedStore& store_;
  std::uint64_t taken_ = 0;
};

CheckedStore::CheckedStore(std::shared_ptr<Store> base, Before before)
    : ForwardingStore(std::move(base)), before_(before), seed_(draw_seed()), zeros_(checksum(Block{}.data())) {
  make_room(base_->size_bytes());
}

/// As much again as there is, so that what grows seldom moves.
void CheckedStore::make_room(std::uint64_t bytes) {
  const std::uint64_t blocks = blocks_for(bytes);
  if (blocks <= entries_.size()) {
    return;
  }
  LazyArray<std::atomic<std::uint64_t>> larger(2 * blocks);
  for (std::uint64_t block = 0; block < entries_.size(); ++block) {
    if (const std::uint64_t entry = entries_[block].load(std::memory_order_relaxed); entry != 0) {
      larger[block].store(entry, std::memory_order_relaxed);
    }
  }
  entries_ = std::move(larger);
}

std::uint64_t CheckedStore::checksum(const std::byte* block) const noexcept {
  return body_checksum({block, checked_block_bytes}, seed_);
}

std::uint64_t CheckedStore::checksum(std::span<const std::byte> bytes) const noexcept {
  if (bytes.size() == checked_block_bytes) {
    return checksum(bytes.data());
  }
  Block whole{};
  std::memcpy(whole.data(), bytes.data(), bytes.size());
  return checksum(whole.data());
}

void CheckedStore::remember(std::uint64_t block, std::uint64_t checksum) noexcept {
  entries_[block].store(before_ == Before::zeros ? checksum ^ zeros_ : checksum, std::memory_order_release);
}

bool CheckedStore::matches(std::uint64_t block, std::span<const std::byte> content) const noexcept {
  const std::uint64_t entry = entries_[block].load(std::memory_order_acquire);
  return checksum(content) == (before_ == Before::zeros ? entry ^ zeros_ : entry);
}

bool CheckedStore::all_match(std::uint64_t first, std::span<const std::byte> content) const noexcept {
  for (; !content.empty(); ++first) {
    const auto one = content.first(std::min<std::size_t>(content.size(), checked_block_bytes));
    if (!matches(first, one)) {
      return false;
    }
    content = content.subspan(one.size());
  }
  return true;
}

/// Until the buffer is full or the store ends.
int CheckedStore::read_whole(std::uint64_t offset, std::span<std::byte> buffer, std::size_t& got) {
  for (got = 0; got < buffer.size();) {
    const std::int64_t one = base_->read(buffer.data() + got, buffer.size() - got, offset + got);
    if (one <= 0) {
      return static_cast<int>(one);
    }
    got += static_cast<std::size_t>(one);
  }
  return 0;
}

int CheckedStore::write_whole(std::uint64_t offset, std::span<const std::byte> content, std::size_t& put) {
  for (put = 0; put < content.size();) {
    const std::int64_t one = base_->write(content.data() + put, content.size() - put, offset + put);
    if (one <= 0) {
      return one < 0 ? static_cast<int>(one) : -EIO;
    }
    put += static_cast<std::size_t>(one);
  }
  return 0;
}

/// With the blocks' turns taken.
int CheckedStore::read_verified_locked(std::uint64_t offset, std::span<std::byte> buffer, std::size_t& got) {
  if (const int error = read_whole(offset, buffer, got); error != 0) {
    return error;
  }
  std::span<const std::byte> left = buffer.first(got);
  for (std::uint64_t block = block_of(offset); !left.empty(); ++block) {
    const auto one = left.first(std::min<std::size_t>(left.size(), checked_block_bytes));
    if (!known(entries_[block].load(std::memory_order_acquire))) {
      remember(block, checksum(one));
    } else if (!matches(block, one)) {
      last_damaged_.store(block, std::memory_order_relaxed);
      damaged_.fetch_add(1, std::memory_order_relaxed);
      return -damaged_error;
    }
    left = left.subspan(one.size());
  }
  return 0;
}

/// Whole blocks. Without a turn first: what has the checksum is right, whoever writes meanwhile.
int CheckedStore::read_blocks(std::uint64_t offset, std::span<std::byte> buffer, std::size_t& got) {
  if (const int error = read_whole(offset, buffer, got); error != 0) {
    return error;
  }
  if (got == 0 || all_match(block_of(offset), buffer.first(got))) {
    return 0;
  }
  const Turns taken(*this, block_of(offset), block_of(offset + buffer.size() - 1));
  return read_verified_locked(offset, buffer, got);
}

/// Of one block.
int CheckedStore::read_part(std::uint64_t offset, std::span<std::byte> buffer, std::size_t& got) {
  Block whole;
  const std::uint64_t within = offset % checked_block_bytes;
  if (const int error = read_blocks(offset - within, whole, got); error != 0) {
    return error;
  }
  got = got > within ? std::min<std::size_t>(got - within, buffer.size()) : 0;
  std::memcpy(buffer.data(), whole.data() + within, got);
  return 0;
}

std::int64_t CheckedStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::shared_lock sized(sizing_);
  const std::uint64_t size = size_bytes();
  if (offset >= size) {
    return 0;
  }
  const std::span<std::byte> all(static_cast<std::byte*>(buffer), std::min<std::uint64_t>(bytes, size - offset));
  std::size_t done = 0;
  while (done < all.size()) {
    const std::uint64_t at = offset + done;
    const std::uint64_t within = at % checked_block_bytes;
    const std::span<std::byte> left = all.subspan(done);
    const bool to_the_end = at + left.size() == size;
    const std::size_t whole = to_the_end ? left.size() : left.size() / checked_block_bytes * checked_block_bytes;
    std::size_t got = 0;
    const int error =
        within == 0 && whole != 0
            ? read_blocks(at, left.first(whole), got)
            : read_part(at, left.first(std::min<std::size_t>(left.size(), checked_block_bytes - within)), got);
    if (error != 0) {
      return error;
    }
    if (got == 0) {
      break;
    }
    done += got;
  }
  return static_cast<std::int64_t>(done);
}

/// What the block will be once [begin, end) of it is written.
int CheckedStore::take_edge(std::uint64_t block, const std::byte* content, std::uint64_t begin, std::uint64_t end,
                            Block& whole) {
  whole = Block{};
  std::size_t got = 0;
  if (const int error = read_verified_locked(block * checked_block_bytes, whole, got); error != 0) {
    return error;
  }
  std::memcpy(whole.data() + begin, content, end - begin);
  return 0;
}

/// After a write of which nobody knows how far it came.
void CheckedStore::remember_as_found(std::uint64_t first, std::uint64_t last) noexcept {
  for (std::uint64_t block = first; block <= last; ++block) {
    Block whole{};
    std::size_t got = 0;
    if (read_whole(block * checked_block_bytes, whole, got) == 0) {
      remember(block, checksum(whole.data()));
    }
  }
}

int CheckedStore::write_locked(std::span<const std::byte> content, std::uint64_t offset, std::size_t& put) {
  const std::uint64_t first = block_of(offset);
  const std::uint64_t last = block_of(offset + content.size() - 1);
  std::vector<std::uint64_t> checksums(last - first + 1);
  for (std::uint64_t block = first; block <= last; ++block) {
    const std::uint64_t start = block * checked_block_bytes;
    const std::uint64_t begin = std::max(start, offset);
    const std::uint64_t end = std::min(start + checked_block_bytes, offset + content.size());
    const std::byte* const here = content.data() + (begin - offset);
    if (begin == start && (end == start + checked_block_bytes || end >= size_bytes())) {
      checksums[block - first] = checksum({here, end - begin});
      continue;
    }
    Block whole;
    if (const int error = take_edge(block, here, begin - start, end - start, whole); error != 0) {
      return error;
    }
    checksums[block - first] = checksum(whole.data());
  }
  const int result = write_whole(offset, content, put);
  const std::uint64_t sure = result == 0 ? last + 1 : block_of(offset + put);
  for (std::uint64_t block = first; block < sure; ++block) {
    remember(block, checksums[block - first]);
  }
  if (result != 0) {
    remember_as_found(std::max(first, sure), last);
  }
  return result;
}

std::int64_t CheckedStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (offset + bytes > size_bytes() && growable() && writable()) {
    if (const int error = lengthen(offset + bytes); error != 0) {
      return error;
    }
  }
  const std::shared_lock sized(sizing_);
  const std::uint64_t size = size_bytes();
  if (bytes == 0 || offset >= size || !writable()) {
    return base_->write(buffer, bytes, offset);  // Which says what is wrong.
  }
  const std::span<const std::byte> content(static_cast<const std::byte*>(buffer),
                                           std::min<std::uint64_t>(bytes, size - offset));
  const Turns taken(*this, block_of(offset), block_of(offset + content.size() - 1));
  std::size_t put = 0;
  const int error = write_locked(content, offset, put);
  return error != 0 && put == 0 ? error : static_cast<std::int64_t>(put);
}

int CheckedStore::resize(std::uint64_t bytes) {
  const std::unique_lock sized(sizing_);
  return resize_locked(bytes);
}

/// Unless another thread was there first.
int CheckedStore::lengthen(std::uint64_t bytes) {
  const std::unique_lock sized(sizing_);
  return bytes > size_bytes() ? resize_locked(bytes) : 0;
}

// The block with the new end is another one then: what is behind it reads as zeros if the store grows again.
int CheckedStore::resize_locked(std::uint64_t bytes) {
  const std::uint64_t before = size_bytes();
  make_room(std::max(bytes, before));
  const bool cut = bytes < before && bytes % checked_block_bytes != 0;
  Block last{};
  if (std::size_t got = 0; cut) {
    const int error = read_verified_locked(block_of(bytes) * checked_block_bytes, last, got);
    if (error != 0) {
      return error;
    }
    std::fill(last.begin() + static_cast<std::ptrdiff_t>(bytes % checked_block_bytes), last.end(), std::byte{0});
  }
  if (const int error = base_->resize(bytes); error != 0) {
    return error;
  }
  if (cut) {
    remember(block_of(bytes), checksum(last.data()));
  }
  for (std::uint64_t block = blocks_for(bytes); block < blocks_for(before); ++block) {
    remember(block, zeros_);
  }
  return 0;
}

int CheckedStore::punch(std::uint64_t offset, std::uint64_t bytes) {
  const std::shared_lock sized(sizing_);
  const std::uint64_t size = size_bytes();
  if (bytes == 0 || offset >= size) {
    return base_->punch(offset, bytes);
  }
  const std::uint64_t end = offset + std::min(bytes, size - offset);
  const Turns taken(*this, block_of(offset), block_of(end - 1));
  const std::array<std::uint64_t, 2> edges = {block_of(offset), block_of(end - 1)};
  std::array<Block, 2> whole{};
  for (std::size_t edge = 0; edge < edges.size(); ++edge) {
    const std::uint64_t start = edges[edge] * checked_block_bytes;
    const std::uint64_t from = std::max(start, offset);
    const std::uint64_t to = std::min(start + checked_block_bytes, end);
    const Block zeros{};
    const bool part = from != start || (to != start + checked_block_bytes && to != size);
    if (const int error = part ? take_edge(edges[edge], zeros.data(), from - start, to - start, whole[edge]) : 0;
        error != 0) {
      return error;
    }
  }
  if (const int error = base_->punch(offset, end - offset); error != 0) {
    if (error != -ENOTSUP) {
      remember_as_found(edges[0], edges[1]);
    }
    return error;
  }
  for (std::uint64_t block = edges[0] + 1; block < edges[1]; ++block) {
    remember(block, zeros_);
  }
  for (std::size_t edge = 0; edge < edges.size(); ++edge) {
    remember(edges[edge], checksum(whole[edge].data()));
  }
  return 0;
}

int CheckedStore::mend(std::uint64_t offset, std::span<const std::byte> content) {
  const std::shared_lock sized(sizing_);
  const std::uint64_t size = size_bytes();
  if (offset % checked_block_bytes != 0 || offset >= size ||
      content.size() != std::min(checked_block_bytes, size - offset)) {
    return -EINVAL;
  }
  const std::uint64_t block = block_of(offset);
  const Turns taken(*this, block, block);
  Block whole{};
  std::size_t got = 0;
  if (const int error = read_whole(offset, whole, got); error != 0) {
    return error;
  }
  if (matches(block, whole)) {
    return 0;
  }
  if (!known(entries_[block].load(std::memory_order_acquire)) || !matches(block, content)) {
    return -EAGAIN;
  }
  std::size_t put = 0;
  if (const int error = write_whole(offset, content, put); error != 0) {
    return error;
  }
  mended_.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

}  // namespace tiermap
