// A store of the program's own (a class derived from Umap::Store), as the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "tiermap/store.hpp"
#include "umap/store/Store.hpp"

namespace tiermap::umap_interface {

/// Hands the program's class whole pages in buffers of their own: aligned, zeroed, and with 4 KiB to spare behind, into
/// which some of UMap's programs read. What it then finds in the page's part is the page, whatever the count says.
///
/// Thread-safe. A program's store that is destroyed while it is mapped is not called any more.
class ProgramStore final : public tiermap::Store {
 public:
  /// `end` is where the region ends, and with it the store; no call is for more than `page_bytes`.
  ProgramStore(Umap::Store& store, std::uint64_t end, std::uint64_t page_bytes);
  ~ProgramStore() override;
  ProgramStore(const ProgramStore&) = delete;
  ProgramStore& operator=(const ProgramStore&) = delete;

  std::uint64_t size_bytes() const override { return end_; }
  bool writable() const override { return true; }
  bool writes_whole_pages() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::string name() const override { return "the program's store"; }

  /// The program's store is being destroyed: called by its destructor.
  static void forget(const Umap::Store& store) noexcept;
  /// Around a fork(): no other thread makes or destroys a store then, of which the child would wait for ever.
  static void hold_all() noexcept;
  static void release_all() noexcept;
  /// Whether this thread is in a call of a program's store.
  static bool calling() noexcept;

 private:
  struct Liveness;
  struct FreeBuffer {  ///< At the beginning of its memory.
    FreeBuffer* next;
  };
  class Buffer;

  Umap::Store* alive() const noexcept;

  const std::shared_ptr<Liveness> liveness_;
  const std::uint64_t end_;
  const std::uint64_t page_bytes_;
  std::mutex buffers_mutex_;
  FreeBuffer* free_buffers_ = nullptr;
};

}  // namespace tiermap::umap_interface
