// A heap's directory and the files in it: making, opening, locking, copying, removing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "heap/heap_layout.hpp"
#include "store/file_descriptor.hpp"
#include "tiermap/heap.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// What is there at a path.
enum class HeapPresence : std::uint8_t {
  nothing,
  empty_directory,
  heap,       ///< Journal and data; what is in them is another question.
  in_part,    ///< What a creation, a copy or a removal that was cut short left.
  something,  ///< Anything else.
};
HeapPresence heap_presence(const std::string& path);

/// The files of a heap, open; the journal's lock is held as long as that is.
struct HeapFiles {
  std::shared_ptr<Store> journal;
  std::shared_ptr<Store> data;
  FileDescriptor directory = {};

  /// A path of the directory that holds when it is renamed or the process goes elsewhere.
  std::string lasting_path() const;
};

/// Throws StoreError that names the heap: missing, no heap, in use (EBUSY).
HeapFiles open_heap_files(const std::string& path, bool writable);

/// Makes directory, journal and empty data of a heap. Throws StoreError; nothing stays behind then.
HeapFiles create_heap_files(const std::string& path, HeapBacking backing, const HeapLayout& layout);

/// Takes the files of a heap, or of a part of one, and its directory away. Throws StoreError.
void remove_heap_files(const std::string& path);
/// The same of what was made in vain: left alone where it fails, as what it is called for has failed already.
void remove_part(const std::string& path) noexcept;

/// A heap in the making: the data of another, copied. Locked, so that nobody removes it as a part that was left.
class HeapCopyFiles {
 public:
  /// Makes a heap's directory at `to` and copies the data of the heap at `from`, holes as holes, by reference where the
  /// file system can. `copied` as for copy_sparse_file(). Throws StoreError; nothing stays behind then.
  HeapCopyFiles(const std::string& from, std::string to, const std::function<void(std::uint64_t)>& copied = {});
  /// Nothing stays behind, unless it was finished.
  ~HeapCopyFiles();
  HeapCopyFiles(const HeapCopyFiles&) = delete;
  HeapCopyFiles& operator=(const HeapCopyFiles&) = delete;

  /// For what is to differ in the copy.
  std::shared_ptr<Store> open_data() const;
  /// Makes it a heap, once its data is closed. Throws StoreError.
  void finish();

 private:
  void copy(const std::string& from, const std::function<void(std::uint64_t)>& copied) const;

  const std::string to_;
  std::shared_ptr<Store> journal_;  ///< Null once it is finished.
};

/// Takes the name of a heap from an open copy while it is brought up to date, so that one that was cut short is no
/// heap; and gives it back. Throw StoreError.
void begin_update(const std::string& copy);
void finish_update(const std::string& copy);

}  // namespace tiermap
