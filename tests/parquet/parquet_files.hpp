// Files that pyarrow made (make_files.py), and what is in them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "store/opening_refusal.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

inline constexpr std::uint64_t point_rows = 100'001;

/// As columns=x,y,z.
inline std::vector<char> coordinates(std::uint64_t rows = point_rows) {
  std::vector<float> values;
  for (std::uint64_t row = 0; row < rows; ++row) {
    const auto number = static_cast<float>(row);
    values.insert(values.end(), {number, number / 2, 0 - number});
  }
  std::vector<char> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// As columns=flag,id,x: packed.
inline std::vector<char> packed_records(std::uint64_t rows = point_rows) {
  std::vector<char> bytes(rows * 13);
  for (std::uint64_t row = 0; row < rows; ++row) {
    char* const record = bytes.data() + row * 13;
    const auto id = static_cast<std::int64_t>(3 * row);
    const auto x = static_cast<float>(row);
    *record = row % 3 == 0 ? '\1' : '\0';
    std::memcpy(record + 1, &id, sizeof id);
    std::memcpy(record + 9, &x, sizeof x);
  }
  return bytes;
}

class ParquetTest : public testing::Test {
 protected:
  /// A copy of a file that pyarrow made.
  std::string copy(const std::string& name) const {
    const std::string path = directory_ / name;
    std::filesystem::copy_file(std::string(TIERMAP_PARQUET_FILES "/") + name, path,
                               std::filesystem::copy_options::overwrite_existing);
    return path;
  }
  /// Of a file there.
  std::string url(const std::string& name, const std::string& options = "") const {
    return "parquet:" + directory_.encoded() + "/" + name + (options.empty() ? "" : "?" + options);
  }
  std::string copied_url(const std::string& name, const std::string& options = "") const {
    copy(name);
    return url(name, options);
  }
  std::vector<std::string> names_there() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  /// What opening says.
  static std::string refusal(const std::string& url, int error_number, OpenMode mode = OpenMode::read_only,
                             std::uint64_t create_bytes = 0) {
    return refusal_of_opening(url, error_number, mode, create_bytes);
  }
  const TemporaryDirectory directory_;
};

}  // namespace tiermap
