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

/// Makes a heap's directory at `to` and copies the data of the heap at `from`, holes as holes, by reference where the
/// file system can. It becomes a heap by finish_copy(). `copied` as for copy_sparse_file(). Throws StoreError; nothing
/// stays behind then.
void copy_heap_data(const std::string& from, const std::string& to,
                    const std::function<void(std::uint64_t)>& copied = {});
/// The data of a copy, for what differs in it.
std::shared_ptr<Store> open_copied_data(const std::string& to);
void finish_copy(const std::string& to);

/// Takes the name of a heap from an open copy while it is brought up to date, so that one that was cut short is no
/// heap; and gives it back. Throw StoreError.
void begin_update(const std::string& copy);
void finish_update(const std::string& copy);

}  // namespace tiermap
