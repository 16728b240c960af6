#include "store/block_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tiermap {

int read_all_of(Store& store, void* buffer, std::size_t bytes, std::uint64_t offset) {
  for (std::size_t done = 0; done < bytes;) {
    const std::int64_t got = store.read(static_cast<char*>(buffer) + done, bytes - done, offset + done);
    if (got <= 0) {
      return got < 0 ? static_cast<int>(got) : -EIO;
    }
    done += static_cast<std::size_t>(got);
  }
  return 0;
}

int BlockReader::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t size = store_->size_bytes();
  if (offset > size || bytes > size - offset) {
    return -EIO;
  }
  if (bytes >= block_bytes_) {
    return read_all_of(*store_, buffer, bytes, offset);
  }
  for (std::size_t done = 0; done < bytes;) {
    const std::uint64_t at = offset + done;
    if (const int error = find(at / block_bytes_); error != 0) {
      return error;
    }
    const std::size_t within = at % block_bytes_;
    const std::size_t count = std::min(bytes - done, blocks_.front().bytes.size() - within);
    std::memcpy(static_cast<char*>(buffer) + done, blocks_.front().bytes.data() + within, count);
    done += count;
  }
  return 0;
}

std::list<BlockReader::Block>::iterator BlockReader::known(std::uint64_t number) {
  return std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) { return block.number == number; });
}

/// To the front of the list.
int BlockReader::find(std::uint64_t number) {
  if (known(number) == blocks_.end()) {
    if (const int error = fetch(number); error != 0) {
      return error;
    }
  }
  blocks_.splice(blocks_.begin(), blocks_, known(number));
  return 0;
}

int BlockReader::fetch(std::uint64_t number) {
  const bool goes_on = number == behind_last_ && blocks_at_once_ > 0;
  const std::size_t wanted =
      goes_on ? std::clamp<std::size_t>(2 * blocks_at_once_, 1, std::max<std::size_t>(most_blocks_ / 2, 1)) : 1;
  std::size_t count = 1;
  while (count < wanted && known(number + count) == blocks_.end()) {
    ++count;
  }
  const std::uint64_t begin = number * block_bytes_;
  std::vector<char> bytes(std::min<std::uint64_t>(count * block_bytes_, store_->size_bytes() - begin));
  if (const int error = read_all_of(*store_, bytes.data(), bytes.size(), begin); error != 0) {
    return error;
  }
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes_) {
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const auto length = static_cast<std::ptrdiff_t>(std::min(block_bytes_, bytes.size() - at));
    blocks_.push_front({number + at / block_bytes_, std::vector<char>(from, from + length)});
  }
  while (blocks_.size() > most_blocks_) {
    blocks_.pop_back();
  }
  behind_last_ = number + count;
  blocks_at_once_ = count;
  return 0;
}

}  // namespace tiermap
