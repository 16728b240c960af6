// A file of results that several threads find, in the order of what they were found for.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "command_line/output_file.hpp"

namespace tiermap {

class OrderedOutput {
 public:
  /// With an empty path nothing is written. Throws StoreError.
  explicit OrderedOutput(const std::string& path);

  bool is_wanted() const noexcept { return file_.has_value(); }
  /// The text of every number from 0, once. Thread-safe. Throws StoreError.
  void add(std::uint64_t number, std::string text);
  /// Without it nothing has been written. Throws StoreError.
  void finish();

 private:
  std::mutex mutex_;  ///< Guards all below.
  std::optional<OutputFile> file_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::string> waiting_;
};

}  // namespace tiermap
