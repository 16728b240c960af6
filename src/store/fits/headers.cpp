#include "store/fits/headers.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/block_reader.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t unit_bytes = 2880;  ///< Headers and data are whole ones of these.
constexpr std::size_t card_bytes = 80;
constexpr std::uint64_t read_bytes = 256 << 10;         ///< Few headers are longer.
constexpr std::uint64_t most_header_bytes = 256 << 20;  ///< Of all together.
constexpr std::int64_t most_axes = 99;                  ///< That cfitsio has room for.

/// What a header says of how long its data are: |BITPIX| / 8 x GCOUNT x (PCOUNT + NAXIS1 x ... x NAXISn).
class DataSize {
 public:
  /// The first card of a name counts.
  void take(std::string_view card) {
    std::string_view name = card.substr(0, 8);
    name = name.substr(0, name.find(' '));
    if (card.substr(8, 2) != "= ") {
      return;
    }
    if (name == "BITPIX") {
      take_number(card, bits_);
    } else if (name == "NAXIS") {
      take_number(card, axes_);
    } else if (name == "PCOUNT") {
      take_number(card, parameters_);
    } else if (name == "GCOUNT") {
      take_number(card, groups_);
    } else if (name == "GROUPS") {
      random_groups_ = value_of(card).starts_with('T');
    } else if (name.starts_with("NAXIS")) {
      std::size_t axis = 0;
      const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), axis);
      if (error == std::errc{} && end == name.data() + name.size() && axis >= 1 && axis <= sides_.size()) {
        take_number(card, sides_[axis - 1]);
      }
    }
  }

  /// 0 if the header does not say it.
  std::int64_t axes() const { return axes_.value_or(0); }
  /// Nothing if the header does not say it, or there can be no such file.
  std::optional<std::uint64_t> bytes() const {
    const std::int64_t axes = axes_.value_or(-1);
    const std::int64_t bits = bits_.value_or(0);
    if (axes < 0 || axes > static_cast<std::int64_t>(sides_.size()) || bits % 8 != 0 || bits < -64 || bits > 64) {
      return std::nullopt;
    }
    std::uint64_t numbers = axes == 0 ? 0 : 1;
    const bool grouped = random_groups_ && sides_[0] == 0;
    bool fits = true;
    for (std::int64_t axis = grouped ? 1 : 0; axis < axes; ++axis) {
      fits = fits && multiply(numbers, sides_[static_cast<std::size_t>(axis)].value_or(-1));
    }
    const std::int64_t parameters = parameters_.value_or(0);
    fits =
        fits && parameters >= 0 && !__builtin_add_overflow(numbers, static_cast<std::uint64_t>(parameters), &numbers);
    fits = fits && multiply(numbers, groups_.value_or(1)) && multiply(numbers, (bits < 0 ? -bits : bits) / 8);
    return fits && numbers <= largest_file_bytes ? std::optional(numbers) : std::nullopt;
  }

 private:
  using Number = std::optional<std::int64_t>;

  static std::string_view value_of(std::string_view card) {
    card.remove_prefix(10);
    card.remove_prefix(std::min(card.find_first_not_of(' '), card.size()));
    return card;
  }
  static void take_number(std::string_view card, Number& number) {
    std::string_view text = value_of(card);
    text.remove_prefix(text.starts_with('+') ? 1 : 0);
    std::int64_t found = 0;
    if (!number && std::from_chars(text.data(), text.data() + text.size(), found).ec == std::errc{}) {
      number = found;
    }
  }
  static bool multiply(std::uint64_t& product, std::int64_t factor) {
    return factor >= 0 && !__builtin_mul_overflow(product, static_cast<std::uint64_t>(factor), &product);
  }

  Number bits_;
  Number axes_;
  Number parameters_;
  Number groups_;
  bool random_groups_ = false;
  std::array<Number, 999> sides_;
};

constexpr std::size_t beginning_bytes = 9;

/// Throws StoreError unless a file of this name begins as FITS files do; `beginning` has so many bytes, or all of a
/// shorter one.
void check_beginning(std::string_view beginning, const std::string& name) {
  const auto refuse = [&](const char* why) { throw StoreError(EINVAL, name + why); };
  if (beginning.empty()) {
    refuse(" is empty: leave it out");
  }
  if (beginning.starts_with("\x1f\x8b")) {
    refuse(" is compressed by gzip: unpack it with gunzip");
  }
  if (beginning != "SIMPLE  =") {
    refuse(" is no FITS file, which begins with SIMPLE: leave it out");
  }
}

using ReadBytes = std::function<void(char*, std::size_t, std::uint64_t)>;
using HeaderUnit = std::array<char, unit_bytes>;
using KeepUnit = std::function<void(const HeaderUnit&, std::uint64_t)>;

/// Goes from header to header, of what begins as FITS files do, as far as they say where the next one is.
class HeaderWalk {
 public:
  HeaderWalk(std::string name, std::uint64_t bytes, ReadBytes read, KeepUnit keep)
      : name_(std::move(name)), bytes_(bytes), read_(std::move(read)), keep_(std::move(keep)) {}

  void go() const {
    std::array<char, beginning_bytes> beginning{};
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes_, beginning.size()));
    read_(beginning.data(), count, 0);
    check_beginning({beginning.data(), count}, name_);
    std::uint64_t at = 0;
    for (std::uint64_t part = 0;; ++part) {
      DataSize data;
      const std::optional<std::uint64_t> header = pass_header(at, data);
      refuse_many_axes(data, part);
      const std::optional<std::uint64_t> data_bytes = data.bytes();
      if (part == 0 && !header) {
        refuse_cut_off_header(data_bytes.has_value());
      }
      if (!header || !data_bytes || *data_bytes > bytes_ - *header) {
        break;  // cfitsio says what is wrong, or that this is the last one.
      }
      at = *header + (*data_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
    }
  }

 private:
  /// Returns where it ends; nothing if there is no header, or one without an end.
  std::optional<std::uint64_t> pass_header(std::uint64_t at, DataSize& data) const {
    HeaderUnit unit{};
    for (bool first = true; at <= bytes_ && unit_bytes <= bytes_ - at; first = false) {
      read_(unit.data(), unit.size(), at);
      const std::string_view text(unit.data(), unit.size());
      if (first && at != 0 && !text.starts_with("XTENSION")) {
        return std::nullopt;
      }
      keep_(unit, at);
      at += unit_bytes;
      for (std::size_t card = 0; card < text.size(); card += card_bytes) {
        if (text.substr(card, 8) == "END     ") {
          return at;
        }
        data.take(text.substr(card, card_bytes));
      }
    }
    return std::nullopt;
  }

  /// The first header has no end. One that says how much data it describes was whole once.
  void refuse_cut_off_header(bool describes_data) const {
    if (describes_data || bytes_ < unit_bytes) {
      throw StoreError(
          EINVAL, name_ + " is cut off: its " + std::to_string(bytes_) + " bytes end within its header: copy it again");
    }
  }

  // cfitsio does not look, and writes past the end of its array.
  void refuse_many_axes(const DataSize& data, std::uint64_t part) const {
    if (data.axes() > most_axes) {
      throw StoreError(EINVAL, name_ + " has in HDU " + std::to_string(part) + " " + std::to_string(data.axes()) +
                                   " dimensions, and cfitsio takes " + std::to_string(most_axes) + ": leave it out");
    }
  }

  const std::string name_;
  const std::uint64_t bytes_;
  const ReadBytes read_;
  const KeepUnit keep_;
};

/// Headers as they are copied.
class HeaderFile {
 public:
  explicit HeaderFile(std::string name) : name_(std::move(name)) {}

  FileDescriptor take() { return std::move(file_); }

  void put(const HeaderUnit& unit, std::uint64_t at) {
    copied_ += unit_bytes;
    if (copied_ > most_header_bytes) {
      throw StoreError(EFBIG, name_ + " has headers of more than 256 MiB: copy it to a file");
    }
    struct rlimit limit{};
    const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && at + unit_bytes > limit.rlim_cur;
    const std::int64_t put = limited ? -EFBIG : write_fully(file_.get(), unit.data(), unit.size(), at);
    if (put != static_cast<std::int64_t>(unit_bytes)) {
      throw StoreError(put < 0 ? static_cast<int>(-put) : EIO,
                       name_ + " has a header at byte " + std::to_string(at) +
                           ", which cannot be kept in memory: " + error_text(put < 0 ? static_cast<int>(-put) : EIO) +
                           ": raise the limit of file sizes (ulimit -f), or copy it to a file");
    }
  }

 private:
  const std::string name_;
  FileDescriptor file_{::memfd_create("tiermap-fits-headers", MFD_CLOEXEC)};
  std::uint64_t copied_ = 0;
};

}  // namespace

FileDescriptor copy_fits_headers(std::shared_ptr<Store> store) {
  const std::string name = store->name();
  const std::uint64_t bytes = store->size_bytes();
  BlockReader reader(std::move(store), read_bytes, 2);
  HeaderFile copy(name);
  const auto read = [&](char* buffer, std::size_t count, std::uint64_t offset) {
    if (const int error = reader.read(buffer, count, offset); error != 0) {
      throw_file_error(-error, name, "cannot be read");
    }
  };
  HeaderWalk(name, bytes, read, [&](const HeaderUnit& unit, std::uint64_t at) { copy.put(unit, at); }).go();
  return copy.take();
}

void check_fits_headers(const DirectFile& file, std::uint64_t bytes, const std::string& path) {
  const auto read = [&](char* buffer, std::size_t count, std::uint64_t offset) {
    const std::int64_t got = file.read(buffer, count, offset);
    if (got != static_cast<std::int64_t>(count)) {
      throw_file_error(got < 0 ? static_cast<int>(-got) : EIO, path, "cannot be read");
    }
  };
  HeaderWalk(path, bytes, read, [](const HeaderUnit&, std::uint64_t) {}).go();
}

}  // namespace tiermap
