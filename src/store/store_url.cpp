#include "store/store_url.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

[[noreturn]] void refuse(std::string_view url, const std::string& why) {
  throw StoreError(EINVAL, "store '" + std::string(url) + "': " + why);
}

bool is_letter(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z');
}

char lower(char character) {
  return character >= 'A' && character <= 'Z' ? static_cast<char>(character - 'A' + 'a') : character;
}

/// Length of the scheme in front of ':', or 0 when the text is a plain path.
std::size_t scheme_length(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) {
    return 0;
  }
  for (std::size_t index = 1; index < text.size(); ++index) {
    const char character = text[index];
    if (character == ':') {
      return index;
    }
    if (!is_letter(character) && !(character >= '0' && character <= '9') && character != '+' && character != '-' &&
        character != '.') {
      return 0;
    }
  }
  return 0;
}

int hexadecimal(char character) {
  if (character >= '0' && character <= '9') {
    return character - '0';
  }
  const char small = lower(character);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

/// The byte that the code at `index` means.
char decode_at(std::string_view encoded, std::size_t index, std::string_view url) {
  const int high = index + 1 < encoded.size() ? hexadecimal(encoded[index + 1]) : -1;
  const int low = index + 2 < encoded.size() ? hexadecimal(encoded[index + 2]) : -1;
  if (high < 0 || low < 0) {
    refuse(url, "'" + std::string(encoded.substr(index, 3)) + "' is no percent code: write %25 for a percent sign");
  }
  const char decoded = static_cast<char>(high * 16 + low);
  if (decoded == '\0') {
    refuse(url, "%00 cannot be part of a path: leave it out");
  }
  return decoded;
}

void parse_options(StoreUrl& url, std::string_view query) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view option = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      refuse(url.text,
             "option '" + std::string(option) + "' is not of the form name=value: write ?name=value&name=value");
    }
    std::string name = percent_decode(option.substr(0, equals), url.text);
    for (const auto& earlier : url.options) {
      if (earlier.first == name) {
        refuse(url.text, "option '" + name + "' is given twice: leave one out");
      }
    }
    url.options.emplace_back(std::move(name), percent_decode(option.substr(equals + 1), url.text));
  }
}

ConcatPiece parse_piece(std::string_view text, std::string_view url) {
  ConcatPiece piece;
  const std::size_t at = text.rfind('@');
  piece.encoded_path = text.substr(0, at);
  if (piece.encoded_path.empty()) {
    refuse(url, "an empty name among the files: write concat:///a,/b (a comma in a name is %2C)");
  }
  if (at == std::string_view::npos) {
    return piece;
  }
  const std::string_view range = text.substr(at + 1);
  const std::size_t plus = range.find('+');
  piece.has_range = true;
  piece.offset = parse_url_size(range.substr(0, plus), "the offset after '@' (an '@' in a name is %40)", url);
  if (plus != std::string_view::npos) {
    piece.has_bytes = true;
    piece.bytes = parse_url_size(range.substr(plus + 1), "the length after '+'", url);
    if (piece.bytes == 0 || piece.bytes > largest_file_bytes) {
      refuse(url, "a length of " + std::to_string(piece.bytes) + " bytes: choose 1 byte to 8EiB, or leave it out");
    }
  }
  if (piece.offset > largest_file_bytes) {
    refuse(url, "an offset of " + std::to_string(piece.offset) +
                    " bytes is past what a file can hold: choose a smaller one");
  }
  return piece;
}

}  // namespace

StoreUrl parse_store_url(std::string_view text) {
  if (text.empty()) {
    throw StoreError(EINVAL, "store '' is empty: name a file or a URL such as file:///data/x.bin or memory:1GiB");
  }
  if (text.find('\0') != std::string_view::npos) {
    refuse(text.substr(0, text.find('\0')), "a zero byte follows: leave it out");
  }
  StoreUrl url;
  url.text = text;
  const std::size_t length = scheme_length(text);
  if (length == 0) {
    url.path = text;
    return url;
  }
  url.scheme = text.substr(0, length);
  std::transform(url.scheme.begin(), url.scheme.end(), url.scheme.begin(), lower);
  std::string_view rest = text.substr(length + 1);
  if (const std::size_t question = rest.find('?'); question != std::string_view::npos) {
    parse_options(url, rest.substr(question + 1));
    rest = rest.substr(0, question);
  }
  if (rest.starts_with("//")) {
    rest.remove_prefix(2);
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    url.host = rest.substr(0, slash);
    rest.remove_prefix(slash);
  }
  url.path = rest;
  return url;
}

const std::string& local_path(const StoreUrl& url, std::string_view example) {
  if (!url.host.empty() && url.host != "localhost") {
    refuse(url.text,
           "'" + url.host + "' stands where a host would: write " + std::string(example) + " with three slashes");
  }
  if (url.path.empty()) {
    refuse(url.text, "there is no path: write " + std::string(example));
  }
  if (names_store(url.path)) {
    refuse(url.text, "'" + url.path.substr(0, scheme_length(url.path)) +
                         ":' names a store where a file would be: copy it to a file; only npy:URL, hdf5:URL, "
                         "fits:URL, csv:URL and parquet:?store=URL read what lies in a store");
  }
  return url.path;
}

bool names_store(std::string_view path) {
  const std::size_t length = scheme_length(path);
  return length != 0 && path.substr(length).starts_with("://");
}

std::string percent_decode(std::string_view encoded, std::string_view url) {
  std::string decoded;
  for (std::size_t index = 0; index < encoded.size(); ++index) {
    const bool code = encoded[index] == '%';
    decoded += code ? decode_at(encoded, index, url) : encoded[index];
    index += code ? 2 : 0;
  }
  return decoded;
}

std::string path_on_disk(const StoreUrl& url) {
  if (url.scheme.empty()) {
    return url.path;
  }
  const bool on_disk = url.scheme == "file" || url.scheme == "sparse";
  return on_disk && !has_wildcard(url.path) ? percent_decode(url.path, url.text) : std::string();
}

bool has_wildcard(std::string_view encoded) {
  return encoded.find_first_of("*[") != std::string_view::npos;
}

std::string decode_pattern(std::string_view encoded, std::string_view url) {
  std::string pattern;
  for (std::size_t index = 0; index < encoded.size(); ++index) {
    const bool code = encoded[index] == '%';
    if (code || encoded[index] == '\\') {
      pattern += '\\';
    }
    pattern += code ? decode_at(encoded, index, url) : encoded[index];
    index += code ? 2 : 0;
  }
  return pattern;
}

std::vector<ConcatPiece> parse_concat_pieces(const StoreUrl& url) {
  std::vector<ConcatPiece> pieces;
  std::string_view rest = local_path(url, "concat:///a,/b");
  for (;;) {
    const std::size_t comma = rest.find(',');
    pieces.push_back(parse_piece(rest.substr(0, comma), url.text));
    if (comma == std::string_view::npos) {
      return pieces;
    }
    rest.remove_prefix(comma + 1);
  }
}

FilePart split_at_colon(const StoreUrl& url, std::string_view example) {
  const std::string_view path = local_path(url, example);
  const std::size_t colon = path.find(':');
  const FilePart place{path.substr(0, colon), path.substr(colon == std::string_view::npos ? path.size() : colon + 1)};
  if (place.file.empty()) {
    refuse(url.text, "there is no file before the colon: write " + std::string(example));
  }
  if (place.part.find(':') != std::string_view::npos) {
    refuse_second_colon(url);
  }
  return place;
}

void refuse_second_colon(const StoreUrl& url) {
  refuse(url.text, "there is more than one colon behind the file: write %3A for one that is part of a name");
}

DatasetPlace parse_dataset_place(const StoreUrl& url) {
  const FilePart place = split_at_colon(url, "hdf5:///directory/file.h5:/group/dataset");
  return {percent_decode(place.file, url.text), decode_dataset_name(place.part, url.text)};
}

std::string decode_dataset_name(std::string_view encoded, std::string_view url) {
  return (encoded.empty() || encoded.starts_with('/') ? "" : "/") + percent_decode(encoded, url);
}

std::uint64_t parse_url_size(std::string_view text, std::string_view what, std::string_view url) {
  try {
    return parse_size(text, what);
  } catch (const OptionError& error) {
    refuse(url, error.what());
  }
}

const std::string* UrlOptions::take(std::string_view name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
    known_.emplace_back(name);
  }
  for (const auto& option : url_.options) {
    if (option.first == name) {
      return &option.second;
    }
  }
  return nullptr;
}

std::string UrlOptions::text(std::string_view name) {
  const std::string* value = take(name);
  return value == nullptr ? "" : *value;
}

std::uint64_t UrlOptions::size(std::string_view name, std::uint64_t missing) {
  const std::string* value = take(name);
  return value == nullptr ? missing : parse_url_size(*value, name, url_.text);
}

std::uint32_t UrlOptions::count(std::string_view name, std::uint32_t missing) {
  const std::string* value = take(name);
  if (value == nullptr) {
    return missing;
  }
  std::uint32_t number = 0;
  const char* const end = value->data() + value->size();
  const auto result = std::from_chars(value->data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) {
    refuse(url_.text, std::string(name) + " '" + *value + "' is no count: choose 0 (no cap) to 4294967295");
  }
  return number;
}

double UrlOptions::seconds(std::string_view name, double missing, double most) {
  const std::string* value = take(name);
  if (value == nullptr) {
    return missing;
  }
  double number = 0;
  const char* const end = value->data() + value->size();
  const auto result = std::from_chars(value->data(), end, number, std::chars_format::fixed);
  if (result.ec != std::errc() || result.ptr != end || !(number > 0 && number <= most)) {
    refuse(url_.text, std::string(name) + " '" + *value + "' is no number of seconds: choose more than 0, at most " +
                          std::to_string(static_cast<unsigned>(most)));
  }
  return number;
}

std::string UrlOptions::choice(std::string_view name, std::initializer_list<std::string_view> choices) {
  const std::string* value = take(name);
  if (value == nullptr) {
    return std::string(*choices.begin());
  }
  if (std::find(choices.begin(), choices.end(), *value) == choices.end()) {
    std::string list;
    for (const std::string_view choice : choices) {
      list += (list.empty() ? "" : ", ") + std::string(choice);
    }
    refuse(url_.text, std::string(name) + " '" + *value + "' is unknown: choose one of " + list);
  }
  return *value;
}

FileOptions UrlOptions::file_options() {
  FileOptions options;
  if (const std::string* value = take("direct"); value != nullptr) {
    if (*value != "on" && *value != "off") {
      refuse(url_.text, "direct '" + *value + "' is neither on nor off: choose one");
    }
    options.direct = *value == "on";
  }
  options.max_reads_in_flight = count("max_reads");
  options.max_writes_in_flight = count("max_writes");
  return options;
}

void UrlOptions::finish() const {
  for (const auto& option : url_.options) {
    if (std::find(known_.begin(), known_.end(), option.first) == known_.end()) {
      std::string list;
      for (const std::string& name : known_) {
        list += (list.empty() ? "" : ", ") + name;
      }
      refuse(url_.text, "option '" + option.first + "' is unknown to " + url_.scheme + ": " +
                            (list.empty() ? "it takes none" : "choose among " + list));
    }
  }
}

}  // namespace tiermap
