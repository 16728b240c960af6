// A file of results that several threads find, in the order of what they were found for. It is written under another
// name and takes its place at the end: what was there stays whole if the run fails.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

namespace tiermap {

class OrderedOutput {
 public:
  /// With an empty path nothing is written. Throws StoreError.
  explicit OrderedOutput(std::string path);
  /// Removes what finish() was not called for.
  ~OrderedOutput();
  OrderedOutput(const OrderedOutput&) = delete;
  OrderedOutput& operator=(const OrderedOutput&) = delete;

  bool is_wanted() const noexcept { return !path_.empty(); }
  /// The text of every number from 0, once. Thread-safe. Throws StoreError.
  void add(std::uint64_t number, std::string text);
  void finish();

 private:
  void check();

  std::string path_;
  std::string partial_path_;
  std::mutex mutex_;  ///< Guards all below.
  std::ofstream file_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::string> waiting_;
};

}  // namespace tiermap
