#include "store/parquet/open.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "store/file_open.hpp"
#include "store/file_store.hpp"
#include "store/forwarding_store.hpp"
#include "store/matching_files.hpp"
#include "store/parquet/creation.hpp"
#include "store/parquet/library.hpp"
#include "store/parquet/records.hpp"
#include "store/parquet/rows_store.hpp"
#include "store/parquet/writable_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::string_view example = "parquet:///directory/file.parquet?columns=x,y";

/// What a URL says.
struct ParquetUrl {
  FileOptions file;
  std::uint64_t decoded_bytes = 0;
  std::string behind;  ///< The URL of the store that the file lies in, where it is no file of this machine.
  ParquetForm form;
  ParquetCreation creation;
};

[[noreturn]] void refuse_url(const StoreUrl& url, const std::string& problem, int error_number = EINVAL) {
  throw StoreError(error_number, "store '" + url.text + "': " + problem);
}

ParquetUrl parse(const StoreUrl& url) {
  UrlOptions options(url);
  ParquetUrl parsed;
  parsed.file = options.file_options();
  parsed.decoded_bytes = options.size("decoded", 0);
  parsed.behind = options.text("store");
  parsed.form = parse_parquet_form(options, url);
  parsed.creation = parse_parquet_creation(options, url);
  options.finish();
  if (!parsed.behind.empty() && !(url.path.empty() && url.host.empty())) {
    refuse_url(url,
               "it names a file and a store that the file lies in: write parquet:?store=URL, or leave the store out");
  }
  return parsed;
}

/// Keeps what a read failed with: the codec says it as a fault of the file's.
class WatchedStore final : public ForwardingStore {
 public:
  explicit WatchedStore(std::shared_ptr<Store> base) : ForwardingStore(std::move(base)) {}
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const std::int64_t got = base_->read(buffer, bytes, offset);
    if (got < 0) {
      error_number_.store(static_cast<int>(-got), std::memory_order_relaxed);
    }
    return got;
  }
  int error_number() const noexcept { return error_number_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> error_number_{0};
};

ParquetFile open_rows_of(const ParquetCodec& codec, std::shared_ptr<Store> file, std::string name,
                         const ParquetForm& form) {
  ParquetFile opened;
  opened.name = std::move(name);
  const auto watched = std::make_shared<WatchedStore>(std::move(file));
  if (const ParquetFailure failure = codec.open(watched, opened.reader); !failure.empty()) {
    if (watched->error_number() != 0) {
      throw_file_error(watched->error_number(), opened.name, "cannot be read");
    }
    throw StoreError(EINVAL, opened.name + " is no Parquet file that can be read (" + failure +
                                 "): copy or make it again, or open it as file:");
  }
  opened.records = arrange_records(form, *opened.reader, opened.name);
  return opened;
}

void require_rows(const ParquetUrl& parsed, const ParquetRowsStore& rows, const StoreUrl& url) {
  const std::uint64_t there = rows.size_bytes() / rows.files().front().records.bytes;
  if (parsed.creation.rows != 0 && parsed.creation.rows != there) {
    refuse_url(url, "there are " + std::to_string(there) + " rows, not " + std::to_string(parsed.creation.rows) +
                        ": leave out the rows, or name another file");
  }
}

/// `descriptors` have the files of these paths open, whatever bears the names by now; without them the names count.
std::unique_ptr<ParquetRowsStore> open_files(const ParquetCodec& codec, const std::vector<std::string>& paths,
                                             const std::vector<int>& descriptors, const ParquetUrl& parsed,
                                             const StoreUrl& url) {
  if (!allow_open_files(4 * paths.size())) {
    refuse_url(url,
               std::to_string(paths.size()) + " files, up to four descriptors each, are more than the limit of " +
                   std::to_string(open_files_limit()) + " open files: raise it (ulimit -Hn) or join files",
               EMFILE);
  }
  std::vector<ParquetFile> files;
  for (std::size_t number = 0; number < paths.size(); ++number) {
    const std::string& path = paths[number];
    OpenedFile opened = open_file(descriptors.empty() ? path : "/proc/self/fd/" + std::to_string(descriptors[number]),
                                  false, parsed.file.direct);
    auto file = std::make_shared<FileStore>(path, std::move(opened), false, parsed.file);
    files.push_back(open_rows_of(codec, std::move(file), path, parsed.form));
  }
  auto rows = std::make_unique<ParquetRowsStore>(std::move(files), parsed.decoded_bytes, url.text, parsed.file);
  require_rows(parsed, *rows, url);
  return rows;
}

std::unique_ptr<Store> open_behind_store(const ParquetUrl& parsed, const StoreUrl& url, OpenMode mode,
                                         const StoreOpener& open_behind) {
  if (mode != OpenMode::read_only) {
    refuse_url(url, "a Parquet file in another store cannot be replaced, and is not written: open it read-only", EROFS);
  }
  const ParquetCodec& codec = parquet_codec(url.text);
  std::vector<ParquetFile> files;
  files.push_back(open_rows_of(codec, open_behind(parsed.behind, OpenMode::read_only), parsed.behind, parsed.form));
  auto rows = std::make_unique<ParquetRowsStore>(std::move(files), parsed.decoded_bytes, url.text, parsed.file);
  require_rows(parsed, *rows, url);
  return rows;
}

}  // namespace

std::unique_ptr<Store> open_parquet(const StoreUrl& url, OpenMode mode, const NewStore& made,
                                    const StoreOpener& open_behind) {
  const ParquetUrl parsed = parse(url);
  if (!parsed.behind.empty()) {
    return open_behind_store(parsed, url, mode, open_behind);
  }
  const std::string& path = local_path(url, example);
  const bool many = has_wildcard(path);
  const bool typed = std::any_of(parsed.form.columns.begin(), parsed.form.columns.end(),
                                 [](const ParquetForm::Column& column) { return !column.type.empty(); });
  if (many && mode == OpenMode::create) {
    refuse_url(url, "many files cannot be created as one: create each");
  }
  const std::vector<std::string> paths =
      many ? matching_files(path, url) : std::vector<std::string>{percent_decode(path, url.text)};
  const bool missing = !many && !path_exists(paths.front());
  const bool to_make = mode == OpenMode::create || (mode == OpenMode::open_or_create && typed && missing);
  if (!to_make && missing) {
    throw_file_error(ENOENT, paths.front(), "cannot be opened");  // Also of who has no library.
  }
  const ParquetCodec& codec = parquet_codec(url.text);
  if (to_make) {
    create_parquet_file(codec, paths.front(), parsed.form, parsed.creation, made, url);
  }
  if (mode == OpenMode::read_only) {
    return open_files(codec, paths, {}, parsed, url);
  }
  std::vector<ParquetTarget> targets;
  std::vector<std::string> real_paths;  // Whatever the working directory will be.
  for (const std::string& one : paths) {
    targets.push_back(lock_parquet_file(one));
    real_paths.push_back(targets.back().path);
  }
  return std::make_unique<ParquetWritableStore>(std::move(targets),
                                                [&codec, real_paths, parsed, url](const std::vector<int>& descriptors) {
                                                  return open_files(codec, real_paths, descriptors, parsed, url);
                                                });
}

}  // namespace tiermap
