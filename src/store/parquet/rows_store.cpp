#include "store/parquet/rows_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "config/size.hpp"
#include "platform/write_unless_closed.hpp"
#include "store/file_transfer.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t most_decoded_bytes = 64 << 20;  // Unless the URL says otherwise.
constexpr std::uint64_t fewest_groups = 8;              // As many threads may be at work in as many places.

void require_alike(const ParquetFile& first, const ParquetFile& other) {
  for (std::size_t field = 0; field < first.records.fields.size(); ++field) {
    const ParquetColumn& wanted = first.records.fields[field].column;
    const ParquetColumn& there = other.records.fields[field].column;
    if (wanted.type != there.type || wanted.name != there.name) {
      throw StoreError(EINVAL, other.name + ": column " + there.name + " holds " + there.type + ", and in " +
                                   first.name + " it is " + wanted.name + " with " + wanted.type +
                                   ": name files of the same columns, or say which, columns=a,b");
    }
  }
}

bool has_gaps(const ParquetRecords& records) {
  std::uint64_t bytes = 0;
  for (const ParquetField& field : records.fields) {
    bytes += field.column.bytes;
  }
  return bytes != records.bytes;
}

}  // namespace

ParquetRowsStore::ParquetRowsStore(std::vector<ParquetFile> files, std::uint64_t decoded_bytes, std::string name,
                                   const FileOptions& options)
    : files_(std::move(files)), name_(std::move(name)), options_(options) {
  std::uint64_t largest = 0;
  std::vector<std::uint64_t> group_bytes;
  for (std::size_t file = 0; file < files_.size(); ++file) {
    const ParquetFile& opened = files_[file];
    if (opened.records.fields.size() != files_.front().records.fields.size()) {
      throw StoreError(EINVAL, opened.name + " has other columns than " + files_.front().name +
                                   ": name files of the same columns, or say which, columns=a,b");
    }
    require_alike(files_.front(), opened);
    for (std::size_t group = 0; group < opened.reader->groups().size(); ++group) {
      std::uint64_t bytes = 0;
      if (__builtin_mul_overflow(opened.reader->groups()[group].rows, opened.records.bytes, &bytes) ||
          bytes > largest_file_bytes - bytes_) {
        throw StoreError(EFBIG, opened.name + " has more rows than there can be: copy or make it again");
      }
      if (bytes != 0) {
        parts_.push_back({file, group, bytes_, bytes});
        group_bytes.push_back(bytes);
      }
      bytes_ += bytes;
      largest = std::max(largest, bytes);
    }
  }
  if (decoded_bytes != 0 && decoded_bytes < largest) {
    throw StoreError(EINVAL, name_ + ": decoded " + format_size(decoded_bytes) +
                                 " is less than a row group's records: choose at least " + format_size(largest));
  }
  const std::uint64_t usual = std::max(largest, fewest_groups > most_decoded_bytes / std::max<std::uint64_t>(largest, 1)
                                                    ? most_decoded_bytes
                                                    : fewest_groups * largest);
  told_.resize(parts_.size());
  decoded_ = std::make_unique<DecodedGroups>(
      std::move(group_bytes), decoded_bytes != 0 ? decoded_bytes : usual,
      [this](std::size_t part, char* records, bool ahead) { return decode(part, records, ahead); });
}

std::optional<ElementLayout> ParquetRowsStore::element_layout() const {
  const ParquetRecords& records = files_.front().records;
  return records.layout(bytes_ / records.bytes);
}

int ParquetRowsStore::decode(std::size_t number, char* records, bool ahead) {
  const ParquetPart& part = parts_[number];
  const ParquetFile& file = files_[part.file];
  if (has_gaps(file.records)) {
    std::memset(records, 0, part.bytes);
  }
  for (const ParquetField& field : file.records.fields) {
    const ParquetFailure failure =
        file.reader->decode(part.group, field.number, {records + field.offset, file.records.bytes, field.null_bytes()});
    if (failure.empty()) {
      continue;
    }
    const std::lock_guard lock(told_mutex_);
    if (!ahead && std::exchange(told_[number], 1) == 0) {
      tell_unless_closed("tiermap: " + file.name + ": column " + field.column.name + " of row group " +
                         std::to_string(part.group) + " cannot be read: " + failure + "\n");
    }
    return -EIO;
  }
  return 0;
}

std::int64_t ParquetRowsStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t end = offset + std::min<std::uint64_t>(bytes, bytes_ - std::min(offset, bytes_));
  auto part = std::upper_bound(parts_.begin(), parts_.end(), offset,
                               [](std::uint64_t at, const ParquetPart& one) { return at < one.offset; });
  std::uint64_t at = offset;
  for (part -= part == parts_.begin() ? 0 : 1; at < end; ++part) {
    const std::uint64_t within = at - part->offset;
    const auto take = static_cast<std::size_t>(std::min(end - at, part->bytes - within));
    int result = 0;
    try {
      result = decoded_->read(static_cast<std::size_t>(part - parts_.begin()), within,
                              static_cast<char*>(buffer) + (at - offset), take);
    } catch (const std::exception&) {
      result = -ENOMEM;
    }
    if (result != 0) {
      return at > offset ? static_cast<std::int64_t>(at - offset) : result;
    }
    at += take;
  }
  return static_cast<std::int64_t>(end - offset);
}

}  // namespace tiermap
