#include "parquet_codec/column_file.hpp"

#include <arrow/memory_pool.h>
#include <arrow/util/compression.h>
#include <parquet/file_writer.h>
#include <parquet/properties.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <utility>

#include "parquet_codec/column_type.hpp"
#include "parquet_codec/column_values.hpp"

namespace tiermap::parquet_codec {
namespace {

using ::parquet::Encoding;
using ::parquet::schema::GroupNode;
using ::parquet::schema::Node;
using ::parquet::schema::NodePtr;
using ::parquet::schema::PrimitiveNode;

class StringSink final : public ::arrow::io::OutputStream {
 public:
  explicit StringSink(std::string& text) : text_(text) {}
  using ::arrow::io::OutputStream::Write;
  ::arrow::Status Write(const void* data, std::int64_t bytes) override {
    text_.append(static_cast<const char*>(data), static_cast<std::size_t>(bytes));
    return ::arrow::Status::OK();
  }
  ::arrow::Result<std::int64_t> Tell() const override { return static_cast<std::int64_t>(text_.size()); }
  ::arrow::Status Close() override {
    closed_ = true;
    return ::arrow::Status::OK();
  }
  bool closed() const override { return closed_; }

 private:
  std::string& text_;
  bool closed_ = false;
};

/// The schema without what does not lead to this column: its levels mean the same there.
std::shared_ptr<GroupNode> schema_of_one(const ::parquet::ColumnDescriptor& column) {
  const Node* node = column.schema_node().get();
  auto logical = column.logical_type();
  if (!logical->is_valid() || !logical->is_applicable(column.physical_type(), column.type_length())) {
    logical = ::parquet::LogicalType::None();
  }
  NodePtr made =
      PrimitiveNode::Make(node->name(), node->repetition(), logical, column.physical_type(), column.type_length());
  for (node = node->parent(); node->parent() != nullptr; node = node->parent()) {
    made = GroupNode::Make(node->name(), node->repetition(), {made});
  }
  return std::static_pointer_cast<GroupNode>(GroupNode::Make("schema", ::parquet::Repetition::REQUIRED, {made}));
}

/// As the column was encoded before. Statistics are made anew; checksums are added, since they cost next to nothing.
std::shared_ptr<::parquet::WriterProperties> properties_as(const ::parquet::ColumnChunkMetaData& chunk) {
  ::parquet::WriterProperties::Builder builder;
  builder.memory_pool(::arrow::system_memory_pool());
  builder.compression(chunk.compression())->enable_page_checksum();
  if (!chunk.has_dictionary_page()) {
    builder.disable_dictionary();
    constexpr std::array kept = {Encoding::BYTE_STREAM_SPLIT, Encoding::DELTA_BINARY_PACKED};
    for (const Encoding::type encoding : chunk.encodings()) {
      if (std::find(kept.begin(), kept.end(), encoding) != kept.end()) {
        builder.encoding(encoding);
      }
    }
  }
  if (!chunk.is_stats_set()) {
    builder.disable_statistics();
  }
  return builder.build();
}

}  // namespace

std::string encode_column(::parquet::ParquetFileReader& before, std::size_t group, std::size_t column,
                          const ParquetColumn& described, const ParquetValues& from) {
  const auto group_before = before.RowGroup(static_cast<int>(group));
  const int number = static_cast<int>(column);
  std::string file;
  const auto writer = ::parquet::ParquetFileWriter::Open(std::make_shared<StringSink>(file),
                                                         schema_of_one(*before.metadata()->schema()->Column(number)),
                                                         properties_as(*group_before->metadata()->ColumnChunk(number)));
  const auto values_before = group_before->Column(number);
  write_values(*writer->AppendRowGroup()->NextColumn(), values_before.get(), described,
               static_cast<std::uint64_t>(group_before->metadata()->num_rows()), from);
  writer->Close();
  return file;
}

std::string make_file(const std::vector<ParquetColumn>& columns, const std::string& compression, std::uint64_t rows) {
  // Of the two formats that LZ4 has, the one that Parquet still makes.
  const auto codec = ::arrow::util::Codec::GetCompressionType(compression == "lz4" ? "lz4_raw" : compression);
  if (!codec.ok() || !::arrow::util::Codec::IsAvailable(*codec)) {
    throw std::runtime_error("compression '" + compression +
                             "' is unknown: choose among none, snappy, gzip, zstd, brotli and lz4");
  }
  ::parquet::WriterProperties::Builder builder;
  builder.memory_pool(::arrow::system_memory_pool());
  builder.compression(*codec)->enable_page_checksum();
  ::parquet::schema::NodeVector nodes;
  std::vector<ParquetColumn> described;
  for (const ParquetColumn& column : columns) {
    NodePtr node = make_column(column.name, column.type);
    if (node == nullptr) {
      throw std::runtime_error("type '" + column.type +
                               "' is not made: choose among bool, int8 to int64, uint8 to uint64, float32 and float64");
    }
    // Of measurements hardly any two are equal.
    if (column.type.starts_with("float")) {
      builder.disable_dictionary(column.name);
    }
    nodes.push_back(std::move(node));
  }
  const auto schema =
      std::static_pointer_cast<GroupNode>(GroupNode::Make("schema", ::parquet::Repetition::REQUIRED, nodes));
  std::string file;
  const auto writer = ::parquet::ParquetFileWriter::Open(std::make_shared<StringSink>(file), schema, builder.build());
  auto* const group = writer->AppendRowGroup();
  constexpr std::array<char, 8> zero = {};
  for (int column = 0; column < group->num_columns(); ++column) {
    write_values(*group->NextColumn(), nullptr, describe_column(*writer->descr(column)), rows,
                 {const_cast<char*>(zero.data()), 0, nullptr});
  }
  writer->Close();
  return file;
}

}  // namespace tiermap::parquet_codec
