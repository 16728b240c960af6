#include "store/parquet/rewriting.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "store/file_open.hpp"
#include "store/parquet/assembly.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Of the values before at once in memory, to be compared.
constexpr std::uint64_t compared_bytes = 1 << 20;

void read_records(Store& store, char* buffer, std::uint64_t bytes, std::uint64_t offset, const std::string& path) {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::int64_t got = store.read(buffer + done, static_cast<std::size_t>(bytes - done), offset + done);
    if (got <= 0) {
      throw_file_error(got < 0 ? static_cast<int>(-got) : EIO, path, "cannot be written anew, since it cannot be read");
    }
    done += static_cast<std::uint64_t>(got);
  }
}

std::uint64_t size_of(int descriptor, const std::string& path) {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) {
    throw_file_error(errno, path, "cannot be examined");
  }
  return static_cast<std::uint64_t>(status.st_size);
}

class Rewriting {
 public:
  Rewriting(ParquetRowsStore& rows, OverlayStore& changes, std::size_t file, int descriptor, const std::string& path)
      : rows_(rows),
        changes_(changes),
        file_(rows.files()[file]),
        path_(path),
        source_(descriptor, size_of(descriptor, path), path) {}

  std::optional<NewParquetFile> run(std::size_t file, bool anyway) {
    if (anyway) {
      start();
    }
    for (const ParquetPart& part : rows_.parts()) {
      if (part.file != file || !may_differ(part)) {
        continue;
      }
      after_.resize(part.bytes);
      read_records(changes_, after_.data(), part.bytes, part.offset, path_);
      if (const std::vector<bool> changed = changed_fields(part);
          std::find(changed.begin(), changed.end(), true) != changed.end()) {
        add_changed(part, changed);
      }
    }
    if (!made_) {
      return std::nullopt;
    }
    carry_until(groups_->items.size());
    assembly_->finish(metadata_, source_);
    return std::move(made_);
  }

 private:
  bool may_differ(const ParquetPart& part) const {
    constexpr std::uint64_t block = OverlayStore::block_bytes;
    for (std::uint64_t at = part.offset / block; at * block < part.offset + part.bytes; ++at) {
      if (changes_.is_written(at)) {
        return true;
      }
    }
    return false;
  }

  /// By comparison with what they were, bit for bit.
  std::vector<bool> changed_fields(const ParquetPart& part) const {
    const ParquetRecords& records = file_.records;
    std::vector<bool> changed(records.fields.size());
    const std::uint64_t step = std::max<std::uint64_t>(compared_bytes / records.bytes, 1) * records.bytes;
    std::vector<char> before(std::min(step, part.bytes));
    for (std::uint64_t at = 0; at < part.bytes; at += step) {
      const std::uint64_t bytes = std::min(step, part.bytes - at);
      read_records(rows_, before.data(), bytes, part.offset + at, path_);
      for (std::size_t number = 0; number < changed.size(); ++number) {
        const ParquetField& field = records.fields[number];
        for (std::uint64_t value = field.offset; !changed[number] && value < bytes; value += records.bytes) {
          changed[number] = std::memcmp(&before[value], &after_[at + value], field.column.bytes) != 0;
        }
      }
    }
    return changed;
  }

  /// Nothing is written before something is known to have changed.
  void start() {
    if (made_) {
      return;
    }
    metadata_ = source_.metadata();
    groups_ = metadata_.find(parquet_field::file_groups);
    if (groups_ == nullptr || groups_->items.size() != file_.reader->groups().size()) {
      throw StoreError(EINVAL, path_ + " has damaged metadata: copy or make it again");
    }
    made_.emplace(path_);
    assembly_ = std::make_unique<ParquetAssembly>(made_->descriptor(), path_);
  }

  std::vector<ThriftValue>& chunks_of(std::size_t group) const {
    ThriftValue* const chunks = groups_->items[group].find(parquet_field::group_chunks);
    if (chunks == nullptr || chunks->items.size() != file_.reader->columns().size()) {
      throw StoreError(EINVAL, path_ + " has damaged metadata: copy or make it again");
    }
    return chunks->items;
  }

  void carry_until(std::size_t end) {
    for (; next_ < end; ++next_) {
      for (ThriftValue& chunk : chunks_of(next_)) {
        assembly_->add_chunk(chunk, source_, true);
      }
      assembly_->finish_group(groups_->items[next_]);
    }
  }

  void add_changed(const ParquetPart& part, const std::vector<bool>& changed) {
    start();
    carry_until(part.group);
    std::vector<ThriftValue>& chunks = chunks_of(part.group);
    for (std::size_t column = 0; column < chunks.size(); ++column) {
      const ParquetField* const field = changed_field(column, changed);
      if (field == nullptr) {
        assembly_->add_chunk(chunks[column], source_, true);
      } else {
        add_encoded(part.group, *field, chunks[column]);
      }
    }
    groups_->items[part.group].remove(parquet_field::group_sorting);  // By other values.
    assembly_->finish_group(groups_->items[part.group]);
    next_ = part.group + 1;
  }

  const ParquetField* changed_field(std::size_t column, const std::vector<bool>& changed) const {
    for (std::size_t number = 0; number < changed.size(); ++number) {
      if (changed[number] && file_.records.fields[number].number == column) {
        return &file_.records.fields[number];
      }
    }
    return nullptr;
  }

  void add_encoded(std::size_t group, const ParquetField& field, ThriftValue& chunk) {
    std::string encoded;
    const ParquetFailure failure = file_.reader->encode(
        group, field.number, {after_.data() + field.offset, file_.records.bytes, field.null_bytes()}, encoded);
    if (!failure.empty()) {
      throw StoreError(EIO, path_ + ": column " + field.column.name + " of row group " + std::to_string(group) +
                                " cannot be encoded (" + failure + "): open it read-only");
    }
    const ParquetSource source(encoded, path_);
    chunk =
        source.metadata().find(parquet_field::file_groups)->items.at(0).find(parquet_field::group_chunks)->items.at(0);
    assembly_->add_chunk(chunk, source, false);
  }

  ParquetRowsStore& rows_;
  OverlayStore& changes_;
  const ParquetFile& file_;
  const std::string& path_;
  const ParquetSource source_;
  std::vector<char> after_;  ///< A row group's records.
  std::optional<NewParquetFile> made_;
  std::unique_ptr<ParquetAssembly> assembly_;
  ThriftValue metadata_;
  ThriftValue* groups_ = nullptr;
  std::size_t next_ = 0;  ///< The first row group that is not in the new file yet.
};

}  // namespace

std::optional<NewParquetFile> rewrite_parquet_file(ParquetRowsStore& rows, OverlayStore& changes, std::size_t file,
                                                   int descriptor, const std::string& path, bool anyway) {
  return Rewriting(rows, changes, file, descriptor, path).run(file, anyway);
}

}  // namespace tiermap
