// The files of a heap that is a copy of another, until it is whole.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "heap/heap_directory.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// A heap in the making: the data of another, copied.
class HeapCopyFiles {
 public:
  /// Makes a heap's directory at `to` and copies the data of the heap at `from`, holes as holes, by reference where the
  /// file system can. `copied` as for copy_sparse_file(). Throws StoreError; nothing stays behind then, nor if it is
  /// not finished.
  HeapCopyFiles(const std::string& from, const std::string& to, const std::function<void(std::uint64_t)>& copied = {});

  /// For what is to differ in the copy. It is taken as it is: what it is a copy of was looked at.
  std::shared_ptr<Store> open_data() const;
  /// Makes it a heap, once its data is closed. Throws StoreError.
  void finish();

 private:
  void copy(const std::string& from, const std::function<void(std::uint64_t)>& copied) const;

  HeapInTheMaking making_;
};

/// Takes the name of a heap from an open copy while it is brought up to date, so that one that was cut short is no
/// heap; and gives it back. Throw StoreError.
void begin_update(const std::string& copy);
void finish_update(const std::string& copy);

}  // namespace tiermap
