#include "heap/name_records.hpp"

#include <cxxabi.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <memory>

namespace tiermap {
namespace {

template <typename Number>
void append_number(std::vector<std::byte>& bytes, Number value) {
  for (std::size_t index = 0; index < sizeof(Number); ++index) {
    bytes.push_back(static_cast<std::byte>(value >> (8 * index) & 0xff));
  }
}

void append_text(std::vector<std::byte>& bytes, const std::string& text) {
  const auto raw = std::as_bytes(std::span(text));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

/// Takes numbers and texts off the front of what was saved; `good` is false once there was not enough.
class SavedNames {
 public:
  explicit SavedNames(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool good() const noexcept { return good_; }
  std::span<const std::byte> rest() const noexcept { return bytes_; }

  template <typename Number>
  Number number() noexcept {
    const auto from = take(sizeof(Number));
    std::uint64_t value = 0;
    for (std::size_t index = 0; index < from.size(); ++index) {
      value |= std::to_integer<std::uint64_t>(from[index]) << (8 * index);
    }
    return static_cast<Number>(value);
  }
  std::string text(std::size_t length) {
    const auto from = take(length);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }

 private:
  std::span<const std::byte> take(std::size_t count) noexcept {
    good_ = good_ && count <= bytes_.size();
    const auto taken = bytes_.first(good_ ? count : 0);
    bytes_ = good_ ? bytes_.subspan(count) : std::span<const std::byte>();
    return taken;
  }

  std::span<const std::byte> bytes_;
  bool good_ = true;
};

}  // namespace

void append_name_record(const NameRecord& record, std::vector<std::byte>& bytes) {
  append_number(bytes, record.offset);
  append_number(bytes, record.count);
  append_number(bytes, record.size_bytes);
  append_number(bytes, record.alignment);
  append_number(bytes, std::uint32_t{record.unique});
  const std::array texts = {&record.name, &record.type, &record.compiler, &record.description};
  for (const std::string* const text : texts) {
    append_number(bytes, static_cast<std::uint32_t>(text->size()));
  }
  for (const std::string* const text : texts) {
    append_text(bytes, *text);
  }
}

bool take_name_record(std::span<const std::byte>& bytes, std::uint64_t capacity_bytes, NameRecord& record) {
  SavedNames saved(bytes);
  record.offset = saved.number<std::uint64_t>();
  record.count = saved.number<std::uint64_t>();
  record.size_bytes = saved.number<std::uint64_t>();
  record.alignment = saved.number<std::uint32_t>();
  record.unique = saved.number<std::uint32_t>() != 0;
  std::array<std::uint32_t, 4> lengths{};
  for (std::uint32_t& length : lengths) {
    length = saved.number<std::uint32_t>();
  }
  record.name = saved.text(lengths[0]);
  record.type = saved.text(lengths[1]);
  record.compiler = saved.text(lengths[2]);
  record.description = saved.text(lengths[3]);
  const bool inside = record.size_bytes != 0 && record.count != 0 && record.offset < capacity_bytes &&
                      record.count <= (capacity_bytes - record.offset) / record.size_bytes;
  if (!saved.good() || !inside || !std::has_single_bit(record.alignment) || record.unique != record.name.empty()) {
    return false;
  }
  bytes = saved.rest();
  return true;
}

HeapObject described(const NameRecord& record) {
  return {record.name,      record.unique, name_in_source(record.type), record.count, record.size_bytes,
          record.alignment, record.offset, record.description};
}

std::string name_in_source(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && name != nullptr ? std::string(name.get()) : mangled;
}

}  // namespace tiermap
