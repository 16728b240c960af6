// What a Vector<T> holds on to: its store, its region, how many elements there are.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "tiermap/vector.hpp"
#include "vector/growing_store.hpp"
#include "vector/open_transactions.hpp"
#include "vector/written_parts.hpp"

namespace tiermap {

class VectorImplementation {
 public:
  VectorImplementation(VectorStorage::How how, std::string url, const ElementLayout& elements, std::uint64_t count,
                       const VectorOptions& options);
  VectorImplementation(std::shared_ptr<Store> store, const ElementLayout& elements, const VectorOptions& options);
  ~VectorImplementation();
  VectorImplementation(const VectorImplementation&) = delete;
  VectorImplementation& operator=(const VectorImplementation&) = delete;

  std::byte* data() const noexcept { return region_.data(); }
  std::uint64_t size() const noexcept { return (growing_ ? growing_->limit_bytes() : fixed_bytes_) / element_bytes_; }
  std::uint64_t capacity() const noexcept { return capacity_bytes_ / element_bytes_; }
  bool writable() const noexcept { return writable_; }
  const std::string& url() const noexcept { return url_; }
  Region& region() noexcept { return region_; }
  std::uint64_t element_bytes() const noexcept { return element_bytes_; }
  const std::shared_ptr<OpenTransactions>& transactions() const noexcept { return transactions_; }
  void leave(VectorRange range);
  /// Null once it is closed.
  Store* store() const noexcept { return store_.get(); }
  void require_open() const;

  std::uint64_t extend(std::uint64_t count);
  void resize(std::uint64_t count);
  void bound_memory(std::uint64_t bytes);
  void sync();
  void close();
  void require_removable() const;
  void destroy();
  ByteRange bytes_of(VectorRange range) const;

 private:
  void open_store(VectorStorage::How how, std::uint64_t count, const ElementLayout& elements);
  void measure_store();
  void require_elements(const ElementLayout& wanted, const std::optional<ElementLayout>& there) const;
  void require_whole_elements() const;
  void choose_memory(const VectorOptions& options);
  Cache& cache_of(const VectorOptions& options) const noexcept;
  void map(const VectorOptions& options);
  void map_by_kernel(RegionOptions& region);
  std::uint64_t mapped_for(std::uint64_t bytes) const noexcept;
  std::uint64_t extend_mapped(std::uint64_t bytes, std::uint64_t most);
  /// What an address space has room for.
  std::uint64_t most_elements() const noexcept { return (std::uint64_t{1} << 46) / element_bytes_; }
  /// Of one without.
  std::string how_to_have_room() const;
  void refuse_to_cut_off(std::uint64_t count) const;
  void shrink(std::uint64_t bytes);
  /// What lies in the store is the parent's, who may be writing it.
  void require_own_process() const;

  const pid_t process_ = ::getpid();
  const std::string url_;
  const std::uint64_t element_bytes_;
  const bool writable_;
  const bool temporary_;
  const bool created_;
  std::string file_;                       ///< Empty where the store is not one file with a name.
  bool removed_ = false;                   ///< The file was, by destroy().
  std::unique_ptr<WrittenParts> written_;  ///< The last one to be given up: what is behind may write until then.
  std::shared_ptr<Store> store_;
  std::shared_ptr<GrowingStore> growing_;  ///< The same, if it can grow.
  std::uint64_t fixed_bytes_ = 0;          ///< Of a store that cannot.
  std::uint64_t capacity_bytes_ = 0;
  std::unique_ptr<Cache> own_cache_;
  std::uint64_t page_size_bytes_ = 0;
  Region region_;
  bool mapped_by_kernel_ = false;  ///< And may grow.
  std::mutex mapped_mutex_;        ///< Held by whoever makes it longer then.
  std::shared_ptr<OpenTransactions> transactions_;
};

}  // namespace tiermap
