// The files of a heap that is a copy of another, until it is whole.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heap/file_copy.hpp"
#include "heap/heap_directory.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// A heap in the making: the data of another, copied.
class HeapCopyFiles {
 public:
  /// Makes a heap's directory at `to` and copies the data of the heap at `from`, holes as holes, by reference where the
  /// file system can. `copied` as for copy_sparse_file(). Throws StoreError; nothing stays behind then, nor if it is
  /// not finished.
  HeapCopyFiles(const CopySource& from, const std::string& to, const std::function<void(std::uint64_t)>& copied = {});

  /// For what is to differ in the copy. It is taken as it is: what it is a copy of was looked at.
  std::shared_ptr<Store> open_data() const;
  /// Makes it a heap, with the modes of what was copied, once its data is closed. Throws StoreError.
  void finish();

 private:
  void copy(const CopySource& from, const std::function<void(std::uint64_t)>& copied);
  void give_modes() const;

  HeapInTheMaking making_;
  const mode_t directory_mode_;
  std::vector<std::pair<std::string, mode_t>> modes_;  ///< Of what is in it.
};

/// Takes the name of a heap from an open copy while it is brought up to date, so that one that was cut short is no
/// heap; and gives it back. Throw StoreError; the first leaves the copy a heap then.
void begin_update(const std::string& copy);
void finish_update(const std::string& copy);

}  // namespace tiermap
