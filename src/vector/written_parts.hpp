// Which files vectors of this process write to, so that no two write to the same place.
#pragma once

#include <string>
#include <vector>

namespace tiermap {

/// While it lives no other vector of this process writes to what the URL names: a second one would have pages of its
/// own, and whichever went to the store last would undo what the other wrote. Told apart by files, whatever their
/// paths, and by where in a file the bytes lie (concat:, hdf5:, fits:), whatever it calls them. Stores elsewhere (s3:,
/// remote:) and parquet: look after that themselves. Thread-safe.
class WrittenParts {
 public:
  WrittenParts() = default;
  /// The files are there. Throws StoreError (EBUSY).
  explicit WrittenParts(const std::string& url);
  WrittenParts(const WrittenParts&) = delete;
  WrittenParts& operator=(const WrittenParts&) = delete;
  ~WrittenParts() { release(); }
  void release() noexcept;

 private:
  bool claimed_ = false;
};

}  // namespace tiermap
