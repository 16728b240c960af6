#include "parquet_codec/column_type.hpp"

#include <parquet/types.h>

#include <algorithm>

namespace tiermap::parquet_codec {
namespace {

using ::parquet::LogicalType;
using ::parquet::Type;

struct NumberType {
  const char* name;
  Type::type physical;
  int bits;  ///< Of integers that say so in the schema.
  bool is_signed;
};

constexpr NumberType number_types[] = {
    {"bool", Type::BOOLEAN, 0, false},  {"int8", Type::INT32, 8, true},     {"int16", Type::INT32, 16, true},
    {"int32", Type::INT32, 0, true},    {"int64", Type::INT64, 0, true},    {"uint8", Type::INT32, 8, false},
    {"uint16", Type::INT32, 16, false}, {"uint32", Type::INT32, 32, false}, {"uint64", Type::INT64, 64, false},
    {"float32", Type::FLOAT, 0, true},  {"float64", Type::DOUBLE, 0, true},
};

const char* unit_of(LogicalType::TimeUnit::unit unit) {
  return unit == LogicalType::TimeUnit::MILLIS ? "ms" : unit == LogicalType::TimeUnit::MICROS ? "us" : "ns";
}

/// Where the point of a decimal is: the same bytes are another number elsewhere.
std::string scale_of(const LogicalType& decimal) {
  return ", of scale " + std::to_string(static_cast<const ::parquet::DecimalLogicalType&>(decimal).scale());
}

/// Integers are stored in 4 or 8 bytes, and mean what the schema says.
void describe_integer(const LogicalType& logical, ParquetColumn& described) {
  described.kind = 'i';
  described.type = "int" + std::to_string(8 * described.bytes);
  if (logical.is_int()) {
    const auto& integer = static_cast<const ::parquet::IntLogicalType&>(logical);
    described.kind = integer.is_signed() ? 'i' : 'u';
    described.bytes = std::min(described.bytes, static_cast<std::uint64_t>(integer.bit_width()) / 8);
    described.type = (integer.is_signed() ? "int" : "uint") + std::to_string(integer.bit_width());
  } else if (logical.is_timestamp()) {
    // The same number is another moment where it is a local time.
    const auto& timestamp = static_cast<const ::parquet::TimestampLogicalType&>(logical);
    described.type = "timestamp[" + std::string(unit_of(timestamp.time_unit())) + "]" +
                     (timestamp.is_adjusted_to_utc() ? " in UTC" : "");
  } else if (logical.is_time()) {
    described.type =
        "time[" + std::string(unit_of(static_cast<const ::parquet::TimeLogicalType&>(logical).time_unit())) + "]";
  } else if (logical.is_date()) {
    described.type = "date";
  } else if (logical.is_decimal()) {
    described.type = "decimal of " + described.type + scale_of(logical);
  }
}

/// No numbers of the machine: their bytes as they are.
void describe_bytes(const ::parquet::ColumnDescriptor& column, ParquetColumn& described) {
  const LogicalType& logical = *column.logical_type();
  described.bytes = static_cast<std::uint64_t>(std::max(column.type_length(), 0));
  described.type = "fixed[" + std::to_string(described.bytes) + "]";
  if (logical.is_float16()) {
    described.kind = 'f';
    described.type = "float16";
  } else if (logical.is_decimal()) {
    described.type = "decimal of " + described.type + ", the most significant byte first" + scale_of(logical);
  }
}

}  // namespace

ParquetColumn describe_column(const ::parquet::ColumnDescriptor& column) {
  ParquetColumn described;
  described.name = column.path()->ToDotString();
  described.nullable = column.max_definition_level() > 0;
  described.repeated = column.max_repetition_level() > 0;
  const LogicalType& logical = *column.logical_type();
  switch (column.physical_type()) {
    case Type::BOOLEAN:
      described.kind = 'b';
      described.bytes = 1;
      described.type = "bool";
      break;
    case Type::INT32:
      described.bytes = 4;
      describe_integer(logical, described);
      break;
    case Type::INT64:
      described.bytes = 8;
      describe_integer(logical, described);
      break;
    case Type::FLOAT:
      described.kind = 'f';
      described.bytes = 4;
      described.type = "float32";
      break;
    case Type::DOUBLE:
      described.kind = 'f';
      described.bytes = 8;
      described.type = "float64";
      break;
    case Type::FIXED_LEN_BYTE_ARRAY:
      describe_bytes(column, described);
      break;
    case Type::INT96:
      described.type = "int96 timestamps";
      break;
    default:
      described.type = logical.is_string() ? "strings" : "byte strings of any length";
      break;
  }
  if (described.repeated) {
    described.type = "lists of " + described.type;
  }
  return described;
}

::parquet::schema::NodePtr make_column(const std::string& name, const std::string& type) {
  for (const NumberType& number : number_types) {
    if (type == number.name) {
      const auto logical = number.bits != 0 ? LogicalType::Int(number.bits, number.is_signed) : LogicalType::None();
      return ::parquet::schema::PrimitiveNode::Make(name, ::parquet::Repetition::REQUIRED, logical, number.physical);
    }
  }
  return nullptr;
}

}  // namespace tiermap::parquet_codec
