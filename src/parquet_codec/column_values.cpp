#include "parquet_codec/column_values.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace tiermap::parquet_codec {
namespace {

/// So many at a time: they stay in the processor's cache between Arrow and the records.
constexpr std::int64_t batch_rows = 4096;

/// `Stored` is what Parquet has, `Value` what the schema says it means: of integers the lowest bytes.
template <typename ParquetType, typename Value>
struct Number {
  using Type = ParquetType;
  using Stored = typename ParquetType::c_type;
  static void get(const Stored& stored, char* record) {
    const auto value = static_cast<Value>(stored);
    std::memcpy(record, &value, sizeof value);
  }
  static Stored put(const char* record) {
    Value value;
    std::memcpy(&value, record, sizeof value);
    if constexpr (std::is_same_v<Value, std::uint32_t>) {
      return static_cast<Stored>(static_cast<std::int32_t>(value));  // The same bits.
    } else {
      return static_cast<Stored>(value);
    }
  }
  std::size_t bytes = sizeof(Value);
};

struct Truth {
  using Type = ::parquet::BooleanType;
  static void get(const bool& stored, char* record) { *record = stored ? '\1' : '\0'; }
  static bool put(const char* record) { return *record != '\0'; }
  std::size_t bytes = 1;
};

struct FixedBytes {
  using Type = ::parquet::FLBAType;
  void get(const ::parquet::FixedLenByteArray& stored, char* record) const { std::memcpy(record, stored.ptr, bytes); }
  static ::parquet::FixedLenByteArray put(const char* record) {
    return ::parquet::FixedLenByteArray(reinterpret_cast<const std::uint8_t*>(record));
  }
  std::size_t bytes;
};

/// Calls with the form that the column's values have.
template <typename Call>
void with_form(const ::parquet::ColumnDescriptor& stored, const ParquetColumn& column, Call&& call) {
  const bool is_signed = column.kind == 'i';
  switch (stored.physical_type()) {
    case ::parquet::Type::BOOLEAN:
      return call(Truth());
    case ::parquet::Type::INT32:
      if (column.bytes == 1) {
        return is_signed ? call(Number<::parquet::Int32Type, std::int8_t>())
                         : call(Number<::parquet::Int32Type, std::uint8_t>());
      }
      if (column.bytes == 2) {
        return is_signed ? call(Number<::parquet::Int32Type, std::int16_t>())
                         : call(Number<::parquet::Int32Type, std::uint16_t>());
      }
      return is_signed ? call(Number<::parquet::Int32Type, std::int32_t>())
                       : call(Number<::parquet::Int32Type, std::uint32_t>());
    case ::parquet::Type::INT64:
      return call(Number<::parquet::Int64Type, std::int64_t>());
    case ::parquet::Type::FLOAT:
      return call(Number<::parquet::FloatType, float>());
    case ::parquet::Type::DOUBLE:
      return call(Number<::parquet::DoubleType, double>());
    case ::parquet::Type::FIXED_LEN_BYTE_ARRAY:
      return call(FixedBytes{column.bytes});
    default:
      throw std::runtime_error("values of type " + column.type);
  }
}

[[noreturn]] void refuse_end(std::int64_t row, std::int64_t rows) {
  throw std::runtime_error("it ends after " + std::to_string(row) + " of " + std::to_string(rows) + " values");
}

template <typename Form>
void read_as(const Form& form, ::parquet::ColumnReader& untyped, std::int64_t rows, const ParquetValues& to) {
  auto& reader = static_cast<::parquet::TypedColumnReader<typename Form::Type>&>(untyped);
  using Stored = typename Form::Type::c_type;
  const std::int16_t present = untyped.descr()->max_definition_level();
  const auto values = std::make_unique<Stored[]>(batch_rows);
  const auto levels = std::make_unique<std::int16_t[]>(batch_rows);
  char* record = to.first;
  for (std::int64_t row = 0; row < rows;) {
    std::int64_t stored = 0;
    const std::int64_t got =
        reader.ReadBatch(std::min(batch_rows, rows - row), levels.get(), nullptr, values.get(), &stored);
    const std::int64_t count = present == 0 ? stored : got;  // Where none can be null there are no levels.
    if (count <= 0) {
      refuse_end(row, rows);
    }
    if (stored == count) {
      for (std::int64_t index = 0; index < count; ++index, record += to.stride) {
        form.get(values[static_cast<std::size_t>(index)], record);
      }
    } else if (to.null == nullptr) {
      throw std::runtime_error("it has nulls: say what they are to be taken for, nulls=0 or nulls=nan");
    } else {
      const Stored* next = values.get();
      for (std::int64_t index = 0; index < count; ++index, record += to.stride) {
        if (levels[static_cast<std::size_t>(index)] == present) {
          form.get(*next++, record);
        } else {
          std::memcpy(record, to.null, form.bytes);
        }
      }
    }
    row += count;
  }
}

/// Where nulls were, for one pass beside the values that are written.
template <typename Form>
class NullsBefore {
 public:
  NullsBefore(::parquet::ColumnReader& reader, std::int16_t present)
      : reader_(static_cast<::parquet::TypedColumnReader<typename Form::Type>&>(reader)), present_(present) {}

  bool next() {
    if (at_ == count_) {
      std::int64_t stored = 0;
      count_ = reader_.ReadBatch(batch_rows, levels_.get(), nullptr, values_.get(), &stored);
      at_ = 0;
      if (count_ <= 0) {
        throw std::runtime_error("it ends before its row group does");
      }
    }
    return levels_[static_cast<std::size_t>(at_++)] < present_;
  }
  std::int16_t level() const { return levels_[static_cast<std::size_t>(at_ - 1)]; }

 private:
  ::parquet::TypedColumnReader<typename Form::Type>& reader_;
  const std::int16_t present_;
  const std::unique_ptr<std::int16_t[]> levels_ = std::make_unique<std::int16_t[]>(batch_rows);
  const std::unique_ptr<typename Form::Type::c_type[]> values_ =
      std::make_unique<typename Form::Type::c_type[]>(batch_rows);
  std::int64_t at_ = 0;
  std::int64_t count_ = 0;
};

template <typename Form>
void write_as(const Form& form, ::parquet::ColumnWriter& untyped, ::parquet::ColumnReader* before, std::int64_t rows,
              const ParquetValues& from) {
  auto& writer = static_cast<::parquet::TypedColumnWriter<typename Form::Type>&>(untyped);
  const std::int16_t present = untyped.descr()->max_definition_level();
  const auto values = std::make_unique<typename Form::Type::c_type[]>(batch_rows);
  const auto levels = std::make_unique<std::int16_t[]>(batch_rows);
  std::unique_ptr<NullsBefore<Form>> nulls;
  if (before != nullptr && present > 0 && from.null != nullptr) {
    nulls = std::make_unique<NullsBefore<Form>>(*before, present);
  }
  const char* record = from.first;
  for (std::int64_t row = 0; row < rows;) {
    const std::int64_t count = std::min(batch_rows, rows - row);
    std::size_t stored = 0;
    for (std::int64_t index = 0; index < count; ++index, record += from.stride) {
      std::int16_t& level = levels[static_cast<std::size_t>(index)];
      level = present;
      if (nulls != nullptr && nulls->next() && std::memcmp(record, from.null, form.bytes) == 0) {
        level = nulls->level();
      } else {
        values[stored++] = form.put(record);
      }
    }
    writer.WriteBatch(count, present > 0 ? levels.get() : nullptr, nullptr, values.get());
    row += count;
  }
}

}  // namespace

void read_values(::parquet::ColumnReader& reader, const ParquetColumn& column, std::uint64_t rows,
                 const ParquetValues& to) {
  with_form(*reader.descr(), column,
            [&](const auto& form) { read_as(form, reader, static_cast<std::int64_t>(rows), to); });
}

void write_values(::parquet::ColumnWriter& writer, ::parquet::ColumnReader* before, const ParquetColumn& column,
                  std::uint64_t rows, const ParquetValues& from) {
  with_form(*writer.descr(), column,
            [&](const auto& form) { write_as(form, writer, before, static_cast<std::int64_t>(rows), from); });
}

}  // namespace tiermap::parquet_codec
