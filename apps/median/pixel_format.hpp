// How a FITS image keeps its pixels, and what they are as native numbers.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

namespace tiermap {

/// What stands for a pixel that has no value: what is BLANK in the file, not a number, or past what a float can be.
inline constexpr float no_value = std::numeric_limits<float>::quiet_NaN();

/// Pixels are big-endian numbers; their value is number * scale + zero.
struct PixelFormat {
  int bits = 16;  ///< BITPIX: 8 (no sign), 16, 32, 64, or for floating point -32, -64.
  double scale = 1;
  double zero = 0;
  std::optional<std::int64_t> blank;  ///< The number of pixels without a value; nothing with floating point.

  std::uint64_t bytes() const noexcept { return static_cast<std::uint64_t>(bits < 0 ? -bits : bits) / 8; }
};

template <typename Number>
Number load_big_endian(const std::byte* from) noexcept {
  using Word =
      std::conditional_t<sizeof(Number) == 1, std::uint8_t,
                         std::conditional_t<sizeof(Number) == 2, std::uint16_t,
                                            std::conditional_t<sizeof(Number) == 4, std::uint32_t, std::uint64_t>>>;
  std::uint64_t word = 0;
  for (std::size_t index = 0; index < sizeof(Number); ++index) {
    word = word << 8U | std::to_integer<std::uint64_t>(from[index]);
  }
  return std::bit_cast<Number>(static_cast<Word>(word));
}

/// From numbers in a file to floats. The calculation is in `Arithmetic`.
template <typename Number, typename Arithmetic>
class PixelDecoder {
 public:
  explicit PixelDecoder(const PixelFormat& format) noexcept
      : scale_(static_cast<Arithmetic>(format.scale)), zero_(static_cast<Arithmetic>(format.zero)) {
    if constexpr (std::integral<Number>) {
      has_blank_ = format.blank.has_value() && std::in_range<Number>(*format.blank);
      blank_ = has_blank_ ? static_cast<Number>(*format.blank) : Number{};
    }
  }
  float operator()(const std::byte* from) const noexcept {
    const auto number = load_big_endian<Number>(from);
    const Arithmetic value = static_cast<Arithmetic>(number) * scale_ + zero_;
    const bool is_value = !(has_blank_ && number == blank_) && std::abs(value) <= std::numeric_limits<float>::max();
    return is_value ? static_cast<float>(value) : no_value;
  }

 private:
  Arithmetic scale_;
  Arithmetic zero_;
  bool has_blank_ = false;
  Number blank_{};
};

/// Calls `work` with a number of the type that the format has.
template <typename Work>
auto with_number_type(const PixelFormat& format, Work&& work) {
  switch (format.bits) {
    case 8:
      return work(std::uint8_t{});
    case 16:
      return work(std::int16_t{});
    case 32:
      return work(std::int32_t{});
    case 64:
      return work(std::int64_t{});
    case -32:
      return work(float{});
    default:
      return work(double{});
  }
}

/// One pixel.
inline float decode_pixel(const std::byte* from, const PixelFormat& format) noexcept {
  return with_number_type(format, [&](auto number) { return PixelDecoder<decltype(number), double>(format)(from); });
}

/// Whether floats give the same result as doubles, and sooner: pixels of 8 or 16 bits that are only moved by a whole
/// number, as from a camera, and floats as they are.
inline bool is_exact_in_float(const PixelFormat& format) noexcept {
  const bool small = format.bits == 8 || format.bits == 16;
  return format.scale == 1 && (small ? std::abs(format.zero) <= 0x1p20 && format.zero == std::trunc(format.zero)
                                     : format.bits == -32 && format.zero == 0);
}

/// `count` pixels that follow one another; `pixels` need not be aligned.
inline void decode_pixels(const std::byte* from, std::uint64_t count, const PixelFormat& format,
                          std::byte* pixels) noexcept {
  with_number_type(format, [&](auto number) {
    const auto decode_all = [=](auto decoder) {
      for (std::uint64_t index = 0; index < count; ++index) {
        const float value = decoder(from + index * sizeof(number));
        std::memcpy(pixels + index * sizeof(float), &value, sizeof(float));
      }
    };
    if (is_exact_in_float(format)) {
      decode_all(PixelDecoder<decltype(number), float>(format));
    } else {
      decode_all(PixelDecoder<decltype(number), double>(format));
    }
  });
}

}  // namespace tiermap
