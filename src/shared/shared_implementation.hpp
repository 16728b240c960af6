// What a SharedVector holds on to: its home, its frames, and which of them may be behind.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cluster/job/coherent_store.hpp"
#include "cluster/job/home_client.hpp"
#include "platform/address_range.hpp"
#include "shared/job_implementation.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {

class SharedImplementation {
 public:
  SharedImplementation(std::shared_ptr<JobImplementation> job, const std::string& name, const ElementLayout& elements,
                       std::optional<std::uint64_t> count, const SharedVectorOptions& options);
  ~SharedImplementation();
  SharedImplementation(const SharedImplementation&) = delete;
  SharedImplementation& operator=(const SharedImplementation&) = delete;

  VectorStorage& vector() noexcept { return *vector_; }
  HomeClient& home() noexcept { return *home_; }
  const std::string& name() const noexcept { return name_; }
  JobImplementation& job() noexcept { return *job_; }
  Phase phase() const noexcept { return phase_.load(std::memory_order_acquire); }
  void require_writable() const;

  void acquire();
  void release();
  void set_phase(Phase phase);
  void place_by_score();
  void start_together(VectorRange range);
  void stop_together(VectorRange range) noexcept;
  void update(VectorRange range, const std::function<void(std::byte*)>& change);
  void copy_out(VectorRange range, std::span<std::byte> to);
  std::uint64_t reserve(std::uint64_t count);
  std::uint64_t appended();
  void save(const std::string& url);
  void load(const std::string& url);
  void close();
  void destroy();
  SharedStatistics statistics() const;
  /// What was written is home, and the next access fetches. Of a closed vector there is nothing to drop.
  void drop(ByteRange range);

 private:
  std::uint64_t whole_bytes() const noexcept { return home_->bytes(); }
  /// Of the elements, on all ranks. What was made is gone if there are none.
  AddressRange reserve_addresses();
  /// By all ranks: each rank's partition on a server near it; null where there is but one server.
  static std::shared_ptr<const StripeTable> table_by_partition(JobClient& client, const std::string& name,
                                                               std::uint64_t count, std::uint64_t element_bytes,
                                                               std::uint64_t stripe_bytes);
  void require_placeable() const;
  std::string own_wishes();
  void place_by_wishes(const std::vector<std::string>& wishes);
  void move_to(const std::vector<std::uint32_t>& server_of);
  std::string places_name() const;
  void acquire_news();
  /// Asks what others have changed; by who may ask the homes.
  void note_news();
  void drop_behind();
  void write_home();
  /// By the first rank alone; the others are told if it fails, or if it was lost meanwhile.
  void copy_by_first(const std::string& doing, const std::function<void()>& copy);
  /// What load() is to the first rank.
  void bring_home(const std::string& url);
  /// What load() is to all of them, after that.
  void take_loaded();
  /// Runs it, and says what the home said where the engine only knows an errno value. What cannot go home because it
  /// was written in the read-only phase is no longer there then.
  template <typename Work>
  void in_words_of_home(const Work& work);
  [[noreturn]] void refuse_what_was_written();

  const std::shared_ptr<JobImplementation> job_;
  const std::string name_;
  const bool made_;
  bool destroyed_ = false;
  std::shared_ptr<HomeClient> home_;
  std::shared_ptr<CoherentStore> store_;
  AddressRange addresses_;  ///< Where vector_ lies, if that is to be the same on all ranks.
  std::unique_ptr<VectorStorage> vector_;
  const ElementLayout elements_;
  const std::uint64_t element_bytes_;
  const std::uint64_t stripe_bytes_;
  const std::uint64_t page_bytes_;
  std::uint64_t incarnation_ = 0;  ///< Of its first home.
  std::uint64_t given_up_ = 0;     ///< How often it was to be placed, since it was. Of who places.
  std::atomic<Phase> phase_{Phase::shared};
  std::mutex drop_mutex_;         ///< Of who drops what is behind. Locked before news_mutex_.
  std::mutex news_mutex_;         ///< Who holds it waits for no gate.
  std::deque<ByteRange> behind_;  ///< News that frames may not have yet. Guarded by news_mutex_.
};

}  // namespace tiermap
