// A reservation of address space as an object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "tiermap/options.hpp"

namespace tiermap {

/// An address as messages write it, such as 0x10000.
std::string hexadecimal(const void* address);

/// Reserves (PROT_NONE) exactly at `address`. Returns false with errno: EEXIST if anything is mapped there.
bool reserve_exactly(void* address, std::size_t bytes) noexcept;

/// Owns [data(), data() + size()). Anonymous, private, not inherited by children, costs no memory until touched.
class AddressRange {
 public:
  AddressRange() = default;
  /// Reserves anywhere, aligned to `alignment` (a power of two). Throws PlatformError.
  static AddressRange reserve(std::size_t bytes, std::size_t alignment, int protection);
  /// Reserves exactly at `address`. `replacement` says over what, in one step: nobody else can get the addresses in
  /// between. With Replacement::reservation they stay reserved at the end: inaccessible (PROT_NONE), for whoever
  /// reserved them before to give up. Throws PlatformError (EEXIST).
  static AddressRange reserve_at(void* address, std::size_t bytes, int protection, Replacement replacement);

  /// Owns what is mapped there already.
  static AddressRange adopt(std::byte* data, std::size_t bytes) noexcept { return {data, bytes}; }

  AddressRange(AddressRange&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        stays_reserved_(std::exchange(other.stays_reserved_, false)) {}
  AddressRange& operator=(AddressRange&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(stays_reserved_, other.stays_reserved_);
    return *this;
  }
  ~AddressRange();

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

  /// Makes the range longer in place. Returns false if the addresses behind it are taken.
  bool extend(std::size_t bytes, int protection) noexcept;
  /// Forgets the range, which stays mapped: it is another's now.
  void release() noexcept {
    data_ = nullptr;
    size_ = 0;
  }
  /// Gives up the end of the range.
  void truncate(std::size_t bytes) noexcept;

 private:
  AddressRange(std::byte* data, std::size_t size) noexcept : data_(data), size_(size) {}
  void give_up(std::byte* start, std::size_t bytes) const noexcept;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool stays_reserved_ = false;
};

}  // namespace tiermap
