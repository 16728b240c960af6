#include "cluster/job/job_protocol.hpp"

#include <cstring>

namespace tiermap {
namespace {

/// Takes a LEB128 number off `bytes`.
bool take_number(std::span<const std::byte>& bytes, std::uint64_t& number) {
  number = 0;
  for (std::uint32_t shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(bytes.front());
    bytes = bytes.subspan(1);
    number |= (byte & 0x7fU) << shift;
    if ((byte & 0x80U) == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

void ChangeList::put(std::uint64_t number) {
  for (; number >= 0x80U; number >>= 7U) {
    encoded_.push_back(static_cast<std::byte>(number | 0x80U));
  }
  encoded_.push_back(static_cast<std::byte>(number));
}

void ChangeList::add(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (encoded_.empty()) {
    encoded_.resize(sizeof(offset));
    std::memcpy(encoded_.data(), &offset, sizeof(offset));
    end_ = offset;
  }
  put(offset - end_);
  put(bytes.size());
  encoded_.insert(encoded_.end(), bytes.begin(), bytes.end());
  end_ = offset + bytes.size();
  changed_bytes_ += bytes.size();
}

bool decode_changes(std::span<const std::byte> encoded, std::uint64_t limit, std::vector<Change>& changes) {
  std::uint64_t at = 0;
  if (encoded.size() < sizeof(at)) {
    return encoded.empty();
  }
  std::memcpy(&at, encoded.data(), sizeof(at));
  encoded = encoded.subspan(sizeof(at));
  while (!encoded.empty()) {
    std::uint64_t gap = 0;
    std::uint64_t length = 0;
    if (at > limit || !take_number(encoded, gap) || !take_number(encoded, length) || gap > limit - at ||
        length > limit - at - gap || length > encoded.size()) {
      return false;
    }
    at += gap;
    changes.push_back({at, encoded.first(length)});
    encoded = encoded.subspan(length);
    at += length;
  }
  return true;
}

}  // namespace tiermap
