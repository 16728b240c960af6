#include "store/fits/pixel_format.hpp"

namespace tiermap {
namespace {

template <typename Word>
Word in_other_order(Word word) noexcept {
  if constexpr (std::endian::native == std::endian::big || sizeof(Word) == 1) {
    return word;
  } else if constexpr (sizeof(Word) == 2) {
    return __builtin_bswap16(word);
  } else if constexpr (sizeof(Word) == 4) {
    return __builtin_bswap32(word);
  } else {
    return __builtin_bswap64(word);
  }
}

/// Calls `work` with an unsigned integer of so many bytes.
template <typename Work>
void with_word(std::uint64_t bytes, Work&& work) {
  switch (bytes) {
    case 1:
      return work(std::uint8_t{});
    case 2:
      return work(std::uint16_t{});
    case 4:
      return work(std::uint32_t{});
    default:
      return work(std::uint64_t{});
  }
}

/// Turns the bits of `before` over, the bytes round, and the bits of `after` over.
template <typename Word>
void turn_words(const std::byte* from, std::uint64_t count, Word before, Word after, std::byte* to) noexcept {
  for (std::uint64_t index = 0; index < count; ++index) {
    Word word = 0;
    std::memcpy(&word, from + index * sizeof(Word), sizeof(Word));
    word = static_cast<Word>(in_other_order(static_cast<Word>(word ^ before)) ^ after);
    std::memcpy(to + index * sizeof(Word), &word, sizeof(Word));
  }
}

template <typename Word>
Word sign_bit_of(const PixelFormat& format) noexcept {
  return is_other_sign(format) ? static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1)) : Word{0};
}

/// Whether floats give the same result as doubles, and sooner: pixels of 8 or 16 bits that are only moved by a whole
/// number, as from a camera, and floats as they are.
bool is_exact_in_float(const PixelFormat& format) noexcept {
  const bool small = format.bits == 8 || format.bits == 16;
  return format.scale == 1 && (small ? std::abs(format.zero) <= 0x1p20 && format.zero == std::trunc(format.zero)
                                     : format.bits == -32 && format.zero == 0);
}

template <typename Decoder>
void decode_each(const Decoder decoder, std::uint64_t file_bytes, const std::byte* from, std::uint64_t count,
                 std::byte* pixels) noexcept {
  for (std::uint64_t index = 0; index < count; ++index) {
    const auto value = decoder(from + index * file_bytes);
    std::memcpy(pixels + index * sizeof value, &value, sizeof value);
  }
}

}  // namespace

void PixelConversion::decode(const std::byte* from, std::uint64_t count, std::byte* pixels) const noexcept {
  if (exact_) {
    with_word(type_.bytes,
              [&]<typename Word>(Word) { turn_words<Word>(from, count, 0, sign_bit_of<Word>(format_), pixels); });
    return;
  }
  with_number_type(format_, [&]<typename Number>(Number) {
    if (type_.bytes == sizeof(double)) {
      decode_each(PixelDecoder<Number, double, double>(format_), sizeof(Number), from, count, pixels);
    } else if (is_exact_in_float(format_)) {
      decode_each(PixelDecoder<Number, float>(format_), sizeof(Number), from, count, pixels);
    } else {
      decode_each(PixelDecoder<Number, double>(format_), sizeof(Number), from, count, pixels);
    }
  });
}

void PixelConversion::encode(const std::byte* pixels, std::uint64_t count, std::byte* to) const noexcept {
  with_word(type_.bytes,
            [&]<typename Word>(Word) { turn_words<Word>(pixels, count, sign_bit_of<Word>(format_), 0, to); });
}

}  // namespace tiermap
