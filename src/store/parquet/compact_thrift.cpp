#include "store/parquet/compact_thrift.hpp"

#include <algorithm>
#include <cerrno>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr int most_nesting = 24;

bool is_integer(ThriftType type) {
  return type == ThriftType::int16 || type == ThriftType::int32 || type == ThriftType::int64;
}

bool is_truth(ThriftType type) {
  return type == ThriftType::yes || type == ThriftType::no;
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  ThriftValue structure(int nesting) {
    if (nesting > most_nesting) {
      refuse();
    }
    ThriftValue value;
    std::int16_t number = 0;
    for (;;) {
      const unsigned head = byte();
      if (head == 0) {
        return value;
      }
      const unsigned step = head >> 4;
      number = static_cast<std::int16_t>(step == 0 ? integer() : number + static_cast<int>(step));
      if (!value.numbers.empty() && number <= value.numbers.back()) {
        refuse();
      }
      value.numbers.push_back(number);
      value.items.push_back(value_of(static_cast<ThriftType>(head & 15), nesting));
    }
  }

  std::size_t done() const { return at_; }

 private:
  [[noreturn]] void refuse() const { throw StoreError(EINVAL, file_ + " has damaged metadata: copy or make it again"); }

  unsigned byte() {
    if (at_ == text_.size()) {
      refuse();
    }
    return static_cast<unsigned char>(text_[at_++]);
  }

  std::uint64_t unsigned_integer() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint64_t part = byte();
      value |= (part & 0x7f) << shift;
      if (part < 0x80) {
        return value;
      }
    }
    refuse();
  }
  std::int64_t integer() {
    const std::uint64_t value = unsigned_integer();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }

  std::string take(std::uint64_t bytes) {
    if (bytes > text_.size() - at_) {
      refuse();
    }
    std::string taken(text_.substr(at_, bytes));
    at_ += bytes;
    return taken;
  }

  ThriftValue value_of(ThriftType type, int nesting) {
    ThriftValue value;
    value.type = type;
    if (type == ThriftType::structure) {
      return structure(nesting + 1);
    }
    if (is_integer(type)) {
      value.integer = integer();
    } else if (type == ThriftType::byte) {
      value.integer = byte();
    } else if (type == ThriftType::number) {
      value.bytes = take(8);
    } else if (type == ThriftType::binary) {
      value.bytes = take(unsigned_integer());
    } else if (type == ThriftType::list || type == ThriftType::set) {
      items_of(value, nesting);
    } else if (!is_truth(type)) {
      refuse();  // Maps, which Parquet's metadata have none of.
    }
    return value;
  }

  void items_of(ThriftValue& list, int nesting) {
    const unsigned head = byte();
    list.item_type = static_cast<ThriftType>(head & 15);
    const std::uint64_t count = head >> 4 == 15 ? unsigned_integer() : head >> 4;
    if (count > text_.size() - at_ || nesting > most_nesting) {  // Each takes a byte at least.
      refuse();
    }
    list.items.reserve(count);
    for (std::uint64_t item = 0; item < count; ++item) {
      if (is_truth(list.item_type)) {  // In a list it has a byte of its own.
        list.items.emplace_back();
        list.items.back().type = byte() == 1 ? ThriftType::yes : ThriftType::no;
      } else {
        list.items.push_back(value_of(list.item_type, nesting + 1));
      }
    }
  }

  const std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
};

class Formatter {
 public:
  void structure(const ThriftValue& value) {
    std::int16_t before = 0;
    for (std::size_t field = 0; field < value.items.size(); ++field) {
      const int step = value.numbers[field] - before;
      const auto type = static_cast<unsigned>(value.items[field].type);
      if (step > 0 && step < 16) {
        byte(static_cast<unsigned>(step) << 4 | type);
      } else {
        byte(type);
        integer(value.numbers[field]);
      }
      before = value.numbers[field];
      content(value.items[field]);
    }
    byte(0);
  }

  std::string text;

 private:
  void byte(unsigned value) { text += static_cast<char>(value); }
  void unsigned_integer(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      byte(static_cast<unsigned>(value & 0x7f) | 0x80);
    }
    byte(static_cast<unsigned>(value));
  }
  void integer(std::int64_t value) {
    unsigned_integer(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
  }

  void content(const ThriftValue& value) {
    if (value.type == ThriftType::structure) {
      structure(value);
    } else if (is_integer(value.type)) {
      integer(value.integer);
    } else if (value.type == ThriftType::byte) {
      byte(static_cast<unsigned>(value.integer));
    } else if (value.type == ThriftType::number) {
      text += value.bytes;
    } else if (value.type == ThriftType::binary) {
      unsigned_integer(value.bytes.size());
      text += value.bytes;
    } else if (value.type == ThriftType::list || value.type == ThriftType::set) {
      list(value);
    }
  }

  void list(const ThriftValue& value) {
    const std::size_t count = value.items.size();
    byte(static_cast<unsigned>(std::min<std::size_t>(count, 15)) << 4 | static_cast<unsigned>(value.item_type));
    if (count >= 15) {
      unsigned_integer(count);
    }
    for (const ThriftValue& item : value.items) {
      if (is_truth(item.type)) {
        byte(static_cast<unsigned>(item.type));
      }
      content(item);
    }
  }
};

}  // namespace

const ThriftValue* ThriftValue::find(std::int16_t number) const {
  const auto found = std::lower_bound(numbers.begin(), numbers.end(), number);
  const bool there = found != numbers.end() && *found == number;
  return there ? &items[static_cast<std::size_t>(found - numbers.begin())] : nullptr;
}

ThriftValue* ThriftValue::find(std::int16_t number) {
  return const_cast<ThriftValue*>(std::as_const(*this).find(number));
}

std::int64_t ThriftValue::integer_at(std::int16_t number, std::int64_t missing) const {
  const ThriftValue* const field = find(number);
  return field == nullptr ? missing : field->integer;
}

void ThriftValue::set_integer(std::int16_t number, std::int64_t value) {
  if (ThriftValue* const field = find(number); field != nullptr && is_integer(field->type)) {
    field->integer = value;
    return;
  }
  remove(number);
  const auto at = std::lower_bound(numbers.begin(), numbers.end(), number) - numbers.begin();
  ThriftValue made;
  made.type = ThriftType::int64;
  made.integer = value;
  numbers.insert(numbers.begin() + at, number);
  items.insert(items.begin() + at, std::move(made));
}

void ThriftValue::remove(std::int16_t number) {
  if (const ThriftValue* const field = find(number)) {
    const auto at = field - items.data();
    numbers.erase(numbers.begin() + at);
    items.erase(items.begin() + at);
  }
}

std::pair<ThriftValue, std::size_t> parse_thrift(std::string_view text, const std::string& file) {
  Parser parser(text, file);
  ThriftValue structure = parser.structure(0);
  return {std::move(structure), parser.done()};
}

std::string format_thrift(const ThriftValue& structure) {
  Formatter formatter;
  formatter.structure(structure);
  return std::move(formatter.text);
}

}  // namespace tiermap
