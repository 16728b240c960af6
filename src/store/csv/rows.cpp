#include "store/csv/rows.hpp"

#include <algorithm>
#include <cstring>

namespace tiermap {

CsvRows::CsvRows(const CsvText& text, char delimiter, std::uint64_t offset, std::uint64_t bytes)
    : source_(text),
      piece_bytes_(text.piece_bytes(bytes)),
      delimiter_(delimiter),
      text_(piece_bytes_),
      text_offset_(offset) {}

CsvRows::Next CsvRows::next() {
  for (;;) {
    const char* const begin = text_.data() + position_;
    const char* const behind = take_row(begin);
    if (behind == nullptr && !at_end_ && text_bytes_ - position_ < most_row_bytes) {
      if (!fill()) {
        return Next::failed;
      }
      continue;
    }
    if (behind == nullptr || static_cast<std::uint64_t>(behind - begin) > most_row_bytes) {
      row_begin_ = position_;
      row_line_ = line_;
      return Next::too_long;
    }
    row_begin_ = position_;
    row_line_ = line_;
    position_ = static_cast<std::uint64_t>(behind - text_.data());
    line_ += lines_in_row_;
    if (position_ == row_begin_) {
      return Next::end;
    }
    if (fields_.size() > 1 || fields_.front().quoted || !fields_.front().text.empty()) {
      return Next::row;
    }
  }
}

/// Moves what was not taken yet to the front and reads on. False if that fails.
bool CsvRows::fill() {
  const std::uint64_t left = text_bytes_ - position_;
  std::memmove(text_.data(), text_.data() + position_, left);
  text_offset_ += position_;
  position_ = 0;
  text_bytes_ = left;
  if (text_.size() - left < piece_bytes_ / 2) {
    text_.resize(2 * text_.size());
  }
  const std::int64_t got = source_.read(text_.data() + left, text_.size() - left, text_offset_ + left);
  if (got < 0) {
    error_ = static_cast<int>(got);
    return false;
  }
  text_bytes_ += static_cast<std::uint64_t>(got);
  at_end_ = got == 0;
  return true;
}

/// Takes a row apart, and returns what is behind its line end; nullptr if the text does not go so far.
const char* CsvRows::take_row(const char* at) {
  const char* const end = text_.data() + text_bytes_;
  fields_.clear();
  lines_in_row_ = 0;
  for (;;) {
    at = take_field(at);
    if (at == nullptr) {
      return nullptr;
    }
    if (at == end) {
      return at_end_ ? at : nullptr;
    }
    if (*at != delimiter_) {
      break;
    }
    ++at;
  }
  ++lines_in_row_;
  if (*at == '\n') {
    return at + 1;
  }
  if (at + 1 == end) {  // Does '\n' follow?
    return at_end_ ? at + 1 : nullptr;
  }
  return at + (at[1] == '\n' ? 2 : 1);
}

/// Returns the delimiter or the line end behind a field, or the end of the text; nullptr if a quote is not closed.
const char* CsvRows::take_field(const char* at) {
  const char* const end = text_.data() + text_bytes_;
  const char* begin = at;
  bool quoted = false;
  if (at != end && *at == '"') {
    for (++at;; at += 2) {
      const char* const quote = static_cast<const char*>(std::memchr(at, '"', static_cast<std::size_t>(end - at)));
      if (quote == nullptr) {
        return nullptr;
      }
      lines_in_row_ += static_cast<std::uint64_t>(std::count(at, quote, '\n'));
      at = quote;
      if (at + 1 == end || at[1] != '"') {
        break;
      }
    }
    quoted = true;
    ++begin;
  }
  const char* field_end = at;
  while (at != end && *at != delimiter_ && *at != '\n' && *at != '\r') {
    ++at;
  }
  if (!quoted) {
    field_end = at;
  } else if (std::find_if(field_end + 1, at, [](char letter) { return letter != ' '; }) != at) {
    quoted = false;  // What follows a quote belongs to the field too, which then is no number.
    --begin;
    field_end = at;
  }
  fields_.push_back({{begin, static_cast<std::size_t>(field_end - begin)}, quoted});
  return at;
}

}  // namespace tiermap
