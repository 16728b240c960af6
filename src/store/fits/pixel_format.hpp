// How a FITS image keeps its pixels, what they are as numbers of this machine, and from the one to the other.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
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

/// Numbers of this machine, in numpy's words: i, u or f.
struct PixelType {
  char kind = 'f';
  std::uint64_t bytes = 4;

  bool operator==(const PixelType&) const = default;
  /// "uint16".
  std::string name() const {
    return (kind == 'u' ? "uint" : kind == 'i' ? "int" : "float") + std::to_string(8 * bytes);
  }
};

/// What pixels are to be.
struct PixelTarget {
  PixelType type;
  bool calculated = false;  ///< A float of either size, and not a number where a pixel has no value.
};

/// FITS has integers of one sign for each size. Those of the other one are moved by half of their range, which turns
/// the first bit over.
inline bool is_other_sign(const PixelFormat& format) noexcept {
  const double half = std::ldexp(1.0, std::max(format.bits, 1) - 1);
  return format.bits > 0 && format.scale == 1 && format.zero == (format.bits == 8 ? -half : half);
}

/// Whether a pixel is a number of this machine but for the order of its bytes and its sign, so that it can be written.
inline bool is_exact(const PixelFormat& format) noexcept {
  return (format.scale == 1 && format.zero == 0) || is_other_sign(format);
}

/// What pixels of a format are where nothing else is asked: of scaled ones the type that has room for each value that
/// they can be, as astropy has it.
inline PixelType natural_type(const PixelFormat& format) noexcept {
  if (format.bits > 0 && is_exact(format)) {
    return {(format.bits == 8) == is_other_sign(format) ? 'i' : 'u', format.bytes()};
  }
  return {'f', format.bits == 8 || format.bits == 16 || format.bits == -32 ? 4U : 8U};
}

/// The unsigned integer of a size.
template <std::size_t bytes>
using PixelWord = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t, std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;

template <typename Number>
Number load_big_endian(const std::byte* from) noexcept {
  std::uint64_t word = 0;
  for (std::size_t index = 0; index < sizeof(Number); ++index) {
    word = word << 8U | std::to_integer<std::uint64_t>(from[index]);
  }
  return std::bit_cast<Number>(static_cast<PixelWord<sizeof(Number)>>(word));
}

/// From numbers in a file to floats or doubles. The calculation is in `Arithmetic`.
template <typename Number, typename Arithmetic, typename Value = float>
class PixelDecoder {
 public:
  explicit PixelDecoder(const PixelFormat& format) noexcept
      : scale_(static_cast<Arithmetic>(format.scale)), zero_(static_cast<Arithmetic>(format.zero)) {
    if constexpr (std::integral<Number>) {
      has_blank_ = format.blank.has_value() && std::in_range<Number>(*format.blank);
      blank_ = has_blank_ ? static_cast<Number>(*format.blank) : Number{};
    }
  }
  Value operator()(const std::byte* from) const noexcept {
    const auto number = load_big_endian<Number>(from);
    const Arithmetic value = static_cast<Arithmetic>(number) * scale_ + zero_;
    const bool is_value = !(has_blank_ && number == blank_) && std::abs(value) <= std::numeric_limits<Value>::max();
    return is_value ? static_cast<Value>(value) : std::numeric_limits<Value>::quiet_NaN();
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

/// From the file to this machine and back; neither address need be aligned.
class PixelConversion {
 public:
  /// To what is natural, or to what is calculated.
  PixelConversion(const PixelFormat& format, PixelTarget target) noexcept
      : format_(format),
        type_(target.type),
        exact_(is_exact(format) && !target.calculated && target.type == natural_type(format)) {}

  std::uint64_t file_bytes() const noexcept { return format_.bytes(); }
  /// Whether every pixel is kept as it is, so that encode() can be called.
  bool exact() const noexcept { return exact_; }

  void decode(const std::byte* from, std::uint64_t count, std::byte* pixels) const noexcept;
  void encode(const std::byte* pixels, std::uint64_t count, std::byte* to) const noexcept;

 private:
  PixelFormat format_;
  PixelType type_;
  bool exact_;
};

}  // namespace tiermap
