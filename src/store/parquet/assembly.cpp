#include "store/parquet/assembly.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "store/file_open.hpp"
#include "store/file_transfer.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::string_view magic = "PAR1";
constexpr std::int64_t tail_bytes = 8;  // The length of the metadata, and the magic word once more.
constexpr std::uint64_t copy_bytes = 1 << 20;

[[noreturn]] void refuse_metadata(const std::string& name) {
  throw StoreError(EINVAL, name + " has damaged metadata: copy or make it again");
}

ThriftValue& field_of(ThriftValue& structure, std::int16_t number, const std::string& name) {
  ThriftValue* const field = structure.find(number);
  if (field == nullptr) {
    refuse_metadata(name);
  }
  return *field;
}

/// Where a chunk's bytes begin: a dictionary lies before the data.
std::int64_t beginning_of(const ThriftValue& column) {
  const std::int64_t data = column.integer_at(parquet_field::column_data_page, 0);
  const std::int64_t dictionary = column.integer_at(parquet_field::column_dictionary_page, 0);
  return dictionary > 0 ? std::min(dictionary, data) : data;
}

void move_offset(ThriftValue& structure, std::int16_t number, std::int64_t moved) {
  if (const std::int64_t offset = structure.integer_at(number, 0); offset > 0) {
    structure.set_integer(number, offset + moved);
  }
}

/// What follows on a part that could be written says why.
void write_all(int descriptor, std::string_view bytes, std::uint64_t offset, const std::string& name) {
  while (!bytes.empty()) {
    const std::int64_t put = write_fully(descriptor, bytes.data(), bytes.size(), offset);
    if (put <= 0) {
      throw_file_error(put < 0 ? static_cast<int>(-put) : ENOSPC, name, "cannot be written anew");
    }
    bytes.remove_prefix(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

}  // namespace

void ParquetSource::require_inside(std::int64_t offset, std::int64_t bytes) const {
  if (offset < 0 || bytes < 0 || static_cast<std::uint64_t>(offset) > bytes_ ||
      static_cast<std::uint64_t>(bytes) > bytes_ - static_cast<std::uint64_t>(offset)) {
    refuse_metadata(name_);
  }
}

std::string ParquetSource::read(std::int64_t offset, std::int64_t bytes) const {
  require_inside(offset, bytes);
  const auto count = static_cast<std::size_t>(bytes);
  if (descriptor_ < 0) {
    return std::string(memory_.substr(static_cast<std::size_t>(offset), count));
  }
  std::string text(count, '\0');
  const std::int64_t got = read_fully(descriptor_, text.data(), count, static_cast<std::uint64_t>(offset));
  if (got != bytes) {
    throw_file_error(got < 0 ? static_cast<int>(-got) : EIO, name_, "cannot be read");
  }
  return text;
}

void ParquetSource::copy(std::int64_t offset, std::int64_t bytes, int to, std::uint64_t to_offset) const {
  require_inside(offset, bytes);
  // The file system may let both files have the same blocks.
  while (descriptor_ >= 0 && bytes > 0) {
    auto from_at = static_cast<off_t>(offset);
    auto to_at = static_cast<off_t>(to_offset);
    const ssize_t copied = ::copy_file_range(descriptor_, &from_at, to, &to_at, static_cast<std::size_t>(bytes), 0);
    if (copied <= 0) {
      break;
    }
    offset += copied;
    bytes -= copied;
    to_offset += static_cast<std::uint64_t>(copied);
  }
  while (bytes > 0) {
    const std::string piece = read(offset, std::min<std::int64_t>(bytes, copy_bytes));
    write_all(to, piece, to_offset, name_);
    offset += static_cast<std::int64_t>(piece.size());
    bytes -= static_cast<std::int64_t>(piece.size());
    to_offset += piece.size();
  }
}

ThriftValue ParquetSource::metadata() const {
  const auto end = static_cast<std::int64_t>(bytes_);
  const std::string tail = read(std::max<std::int64_t>(end - tail_bytes, 0), std::min(end, tail_bytes));
  std::uint32_t length = 0;
  if (tail.ends_with("PARE")) {
    throw StoreError(ENOTSUP, name_ + " is encrypted, and cannot be written: open it read-only");
  }
  if (!tail.ends_with(magic) || tail.size() != static_cast<std::size_t>(tail_bytes)) {
    refuse_metadata(name_);
  }
  std::memcpy(&length, tail.data(), sizeof length);
  return parse_thrift(read(end - tail_bytes - length, length), name_).first;
}

ParquetAssembly::ParquetAssembly(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {
  append(magic);
}

void ParquetAssembly::append(std::string_view bytes) {
  write_all(descriptor_, bytes, static_cast<std::uint64_t>(end_), name_);
  end_ += static_cast<std::int64_t>(bytes.size());
}

/// Where it is now.
std::int64_t ParquetAssembly::copy(const ParquetSource& source, std::int64_t offset, std::int64_t bytes) {
  source.copy(offset, bytes, descriptor_, static_cast<std::uint64_t>(end_));
  end_ += bytes;
  return end_ - bytes;
}

void ParquetAssembly::add_chunk(ThriftValue& chunk, const ParquetSource& source, bool with_indexes) {
  if (chunk.find(parquet_field::chunk_path) != nullptr || chunk.find(parquet_field::chunk_encryption) != nullptr) {
    throw StoreError(ENOTSUP, source.name() + " has columns in other files or encrypted: open it read-only");
  }
  ThriftValue& column = field_of(chunk, parquet_field::chunk_metadata, source.name());
  const std::int64_t begin = beginning_of(column);
  const std::int64_t moved = copy(source, begin, column.integer_at(parquet_field::column_compressed_bytes, -1)) - begin;
  for (const std::int16_t offset :
       {parquet_field::column_data_page, parquet_field::column_index_page, parquet_field::column_dictionary_page}) {
    move_offset(column, offset, moved);
  }
  move_offset(chunk, parquet_field::chunk_offset, moved);
  if (!with_indexes) {
    for (const std::int16_t index : {parquet_field::chunk_offset_index, parquet_field::chunk_offset_index_bytes,
                                     parquet_field::chunk_column_index, parquet_field::chunk_column_index_bytes}) {
      chunk.remove(index);
    }
  }
  // A filter that does not say how long it is, as of old, cannot be copied: it only ever saves work.
  if (!with_indexes || column.find(parquet_field::column_bloom_bytes) == nullptr) {
    column.remove(parquet_field::column_bloom);
    column.remove(parquet_field::column_bloom_bytes);
  }
  moved_.emplace_back(with_indexes, moved);
}

void ParquetAssembly::finish_group(ThriftValue& group) const {
  std::int64_t bytes = 0;
  std::int64_t compressed = 0;
  std::int64_t begin = 0;
  for (ThriftValue& chunk : field_of(group, parquet_field::group_chunks, name_).items) {
    const ThriftValue& column = field_of(chunk, parquet_field::chunk_metadata, name_);
    begin = begin == 0 ? beginning_of(column) : begin;
    bytes += column.integer_at(parquet_field::column_uncompressed_bytes, 0);
    compressed += column.integer_at(parquet_field::column_compressed_bytes, 0);
  }
  group.set_integer(parquet_field::group_bytes, bytes);
  if (group.find(parquet_field::group_compressed_bytes) != nullptr) {
    group.set_integer(parquet_field::group_compressed_bytes, compressed);
  }
  if (group.find(parquet_field::group_offset) != nullptr) {
    group.set_integer(parquet_field::group_offset, begin);
  }
}

/// Of a chunk's pages one index has only values, the other one says where they are.
void ParquetAssembly::add_indexes(ThriftValue& chunk, const ParquetSource& source, std::int64_t moved) {
  if (const std::int64_t at = chunk.integer_at(parquet_field::chunk_column_index, 0); at > 0) {
    chunk.set_integer(parquet_field::chunk_column_index,
                      copy(source, at, chunk.integer_at(parquet_field::chunk_column_index_bytes, -1)));
  }
  if (const std::int64_t at = chunk.integer_at(parquet_field::chunk_offset_index, 0); at > 0) {
    ThriftValue index =
        parse_thrift(source.read(at, chunk.integer_at(parquet_field::chunk_offset_index_bytes, -1)), source.name())
            .first;
    for (ThriftValue& page : field_of(index, parquet_field::index_pages, source.name()).items) {
      move_offset(page, parquet_field::page_offset, moved);
    }
    const std::string text = format_thrift(index);
    chunk.set_integer(parquet_field::chunk_offset_index, end_);
    chunk.set_integer(parquet_field::chunk_offset_index_bytes, static_cast<std::int64_t>(text.size()));
    append(text);
  }
  ThriftValue& column = field_of(chunk, parquet_field::chunk_metadata, source.name());
  if (const std::int64_t at = column.integer_at(parquet_field::column_bloom, 0); at > 0) {
    column.set_integer(parquet_field::column_bloom,
                       copy(source, at, column.integer_at(parquet_field::column_bloom_bytes, -1)));
  }
}

void ParquetAssembly::finish(ThriftValue& metadata, const ParquetSource& source) {
  auto moved = moved_.begin();
  for (ThriftValue& group : field_of(metadata, parquet_field::file_groups, name_).items) {
    for (ThriftValue& chunk : field_of(group, parquet_field::group_chunks, name_).items) {
      if (moved->first) {
        add_indexes(chunk, source, moved->second);
      }
      ++moved;
    }
  }
  const std::string text = format_thrift(metadata);
  if (text.size() > INT32_MAX) {
    throw StoreError(EFBIG, name_ + " would have more than 2 GiB of metadata: choose larger row groups");
  }
  const auto length = static_cast<std::uint32_t>(text.size());
  append(text);
  append({reinterpret_cast<const char*>(&length), sizeof length});
  append(magic);
}

}  // namespace tiermap
