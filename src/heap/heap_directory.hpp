// A heap's directory and the files in it: making, opening, locking.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "heap/heap_data.hpp"
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
  in_part,    ///< What a creation, a copy or a removal that was cut short left, or one that is under way.
  something,  ///< Anything else.
};
/// Throws StoreError for what is no path, or cannot be looked at.
HeapPresence heap_presence(const std::string& path);

/// The files of a heap, open; the journal's lock is held as long as that is.
struct HeapFiles {
  std::shared_ptr<Store> journal;
  std::shared_ptr<Store> data;
  FileDescriptor directory = {};

  /// A path of the directory that holds when it is renamed or the process goes elsewhere.
  std::string lasting_path() const;
};

/// Throws StoreError that names the heap: missing (ENOENT), no heap, in use (EBUSY); and as open_heap_data().
HeapFiles open_heap_files(const std::string& path, bool writable, DamagedData damaged = DamagedData::refused);

/// A heap in the making, locked, so that nobody opens it or removes it as a part that was left. All of it is taken away
/// again, and the lock given up only then, unless it was kept. What is open of it is to be closed by then.
class HeapInTheMaking {
 public:
  /// Makes its directory and journal, in place of a creation that was cut short. Throws StoreError, EEXIST if anything
  /// else is there; nothing stays behind then.
  explicit HeapInTheMaking(std::string path);
  ~HeapInTheMaking();
  HeapInTheMaking(const HeapInTheMaking&) = delete;
  HeapInTheMaking& operator=(const HeapInTheMaking&) = delete;

  /// Makes its empty data, and opens all of it. Throws StoreError.
  HeapFiles create_files(HeapBacking backing, const HeapLayout& layout) const;
  const std::string& path() const noexcept { return path_; }
  /// It is a heap: locked from now on only as long as its files are open.
  void keep() noexcept {
    journal_.reset();
    reserved_ = {};
  }

 private:
  const std::string path_;
  std::shared_ptr<Store> journal_;  ///< Null once it is kept.
  FileDescriptor directory_;
  /// What taking it away needs open at once, so that this can be done where no more can be opened.
  std::array<FileDescriptor, 2> reserved_;
};

}  // namespace tiermap
