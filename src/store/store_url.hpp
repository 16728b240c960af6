// What a store's URL says, taken apart. Nothing here touches a file.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/file_open.hpp"

namespace tiermap {

/// A URL in its parts. `path` still has its percent signs: a '%2C' in a list of files is no separator.
struct StoreUrl {
  std::string text;    ///< All of it, for messages.
  std::string scheme;  ///< Lower case; "" for a plain path.
  std::string host;    ///< Between "//" and the next '/': a bucket, a machine; "" for local stores.
  std::string path;    ///< From there to '?'; a plain path is all path, whatever characters it has.
  std::vector<std::pair<std::string, std::string>> options;  ///< In order, decoded.
};

/// Throws StoreError (EINVAL) for an empty text, a bad percent code, an option without '=' or given twice.
StoreUrl parse_store_url(std::string_view text);

/// The path of a URL that names something on this machine, still encoded. Throws StoreError for another host or no
/// path; `example` says what should be written.
const std::string& local_path(const StoreUrl& url, std::string_view example);

/// Whether a path begins as s3://bucket does: a URL stands where a file would.
bool names_store(std::string_view path);

/// Replaces %41 by A. Throws StoreError for what is no code, and for %00, which no path can hold.
std::string percent_decode(std::string_view encoded, std::string_view url);

/// The decoded path of the one file (plain path, `file:`) or directory (`sparse:`) that a store is; "" for any other.
std::string path_on_disk(const StoreUrl& url);

/// The decoded path as a pattern of glob(3), or as a plain path: what was encoded is never a wild card.
bool has_wildcard(std::string_view encoded);
std::string decode_pattern(std::string_view encoded, std::string_view url);

/// A file of a concat URL: /path, /path@offset or /path@offset+length.
struct ConcatPiece {
  std::string encoded_path;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  ///< Meaningful when has_bytes.
  bool has_bytes = false;   ///< Otherwise the piece goes to the end of the file.
  bool has_range = false;   ///< There was an '@'.
};

/// Splits the path of a concat URL at its commas. Throws StoreError.
std::vector<ConcatPiece> parse_concat_pieces(const StoreUrl& url);

/// A URL's path, taken apart at its colon; both parts are still encoded.
struct FilePart {
  std::string_view file;
  std::string_view part;  ///< Of the file; empty if the URL names none.
};

/// Throws StoreError, for a second colon too: one that is part of a name is %3A.
FilePart split_at_colon(const StoreUrl& url, std::string_view example);
[[noreturn]] void refuse_second_colon(const StoreUrl& url);

/// What hdf5:///directory/file.h5:/group/dataset names, decoded.
struct DatasetPlace {
  std::string file;
  std::string dataset;  ///< From the root on; empty if the URL names none.
};

/// Throws StoreError.
DatasetPlace parse_dataset_place(const StoreUrl& url);
/// From what stands behind the colon, which need not begin with a slash. Throws StoreError.
std::string decode_dataset_name(std::string_view encoded, std::string_view url);

/// Reads the options of a URL one by one; finish() refuses what nobody asked for. All throw StoreError (EINVAL) with
/// the URL, the option and the remedy.
class UrlOptions {
 public:
  explicit UrlOptions(const StoreUrl& url) : url_(url) {}

  /// Whether it is there, with a value or without.
  bool has(std::string_view name) { return take(name) != nullptr; }
  /// `name` as it is, or "".
  std::string text(std::string_view name);
  /// `name` as a size (256MiB), or `missing`.
  std::uint64_t size(std::string_view name, std::uint64_t missing);
  /// `name` as a number of something, or `missing`.
  std::uint32_t count(std::string_view name, std::uint32_t missing = 0);
  /// `name` as seconds, of which there may be a part, or `missing`.
  double seconds(std::string_view name, double missing, double most);
  /// One of `choices`, of which the first is taken where `name` is missing.
  std::string choice(std::string_view name, std::initializer_list<std::string_view> choices);
  /// `direct`, `max_reads`, `max_writes`.
  FileOptions file_options();
  void finish() const;

 private:
  const std::string* take(std::string_view name);

  const StoreUrl& url_;
  std::vector<std::string> known_;
};

/// parse_size() with a StoreError that quotes the URL.
std::uint64_t parse_url_size(std::string_view text, std::string_view what, std::string_view url);

}  // namespace tiermap
