#include "gray-scott/grid.hpp"

#include <algorithm>

#include "gray-scott/plane_pass.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

template <typename T>
class VectorGrid final : public Grid<T> {
 public:
  VectorGrid(MemorySystem& system, const WorkloadOptions& options, std::uint64_t size, Vector<T> cells)
      : Grid<T>(size, cells.data()), cells_of_both_(std::move(cells)) {
    transactions_.prefetch = options.prefetch;
    // What all has room need not be written before the end.
    intent_ = this->bytes_of(size) < system.budget_bytes() / 8 * 7 ? Intent::read : Intent::read_write;
    ahead_bytes_ = pass_ahead_bytes(system.budget_bytes());
  }

  static Vector<T> open(MemorySystem& system, const WorkloadOptions& options, const Backing& backing) {
    VectorOptions vector;
    vector.cache = system.cache();
    vector.page_size_bytes = system.page_size_bytes();
    vector.read_ahead_bytes = options.read_ahead_bytes;
    vector.advice = options.advice;
    vector.capacity_bytes = backing.size_bytes();
    return Vector<T>::on(backing.store(), vector);
  }

  void begin_pass(std::uint64_t planes, std::uint64_t at_once) override {
    const std::uint64_t plane_bytes = 2 * this->size_ * this->size_ * sizeof(T);
    transactions_.window_bytes = at_once * plane_bytes + ahead_bytes_;
    pass_.reset(new PlanePass(cells_of_both_.template transaction<PlanePass>(intent_, 2 * this->size_ * this->size_,
                                                                             std::uint64_t{0}, planes, transactions_)));
    pass_->passed(0);
  }
  void passed(std::uint64_t planes) override { pass_->passed(planes); }
  void end_pass() override { pass_.reset(); }
  void save() override { cells_of_both_.sync(); }

 private:
  Vector<T> cells_of_both_;
  TransactionOptions transactions_;
  std::uint64_t ahead_bytes_ = 0;
  Intent intent_ = Intent::read_write;
  std::unique_ptr<PlanePass> pass_;
};

/// By mmap() and its hints, or with everything in memory.
template <typename T>
class MappedGrid final : public Grid<T> {
 public:
  MappedGrid(const WorkloadOptions& options, std::uint64_t size, std::uint64_t budget_bytes,
             std::unique_ptr<MappedBytes> bytes)
      : Grid<T>(size, reinterpret_cast<T*>(bytes->data())),
        hints_(options.prefetch),
        ahead_bytes_(pass_ahead_bytes(budget_bytes)),
        bytes_(std::move(bytes)) {}

  void begin_pass(std::uint64_t, std::uint64_t at_once) override {
    announced_ = 0;
    at_once_ = at_once;
    passed(0);
  }
  void passed(std::uint64_t planes) override {
    const std::uint64_t end =
        std::min((planes + at_once_) * 2 * this->size_ * this->size_ * sizeof(T) + ahead_bytes_, bytes_->size());
    if (hints_ && end > announced_) {
      bytes_->prefetch({announced_, end - announced_});
      announced_ = end;
    }
  }
  void end_pass() override {}
  void save() override { bytes_->save(); }

 private:
  const bool hints_;
  const std::uint64_t ahead_bytes_;
  const std::unique_ptr<MappedBytes> bytes_;
  std::uint64_t at_once_ = 0;
  std::uint64_t announced_ = 0;
};

/// Each rank touches its own planes only, until all are published: no message says what has changed, and planes go home
/// when they must leave memory. What a rank must know of others' planes comes by the halo.
template <typename T>
class SharedGrid final : public Grid<T> {
 public:
  SharedGrid(Ranks& ranks, std::uint64_t size, SharedVector<T> cells)
      : Grid<T>(size, cells.data(), ranks.part_of(size)), cells_of_all_(std::move(cells)), halo_(ranks, size) {
    cells_of_all_.set_phase(Phase::local);
  }

  static SharedVector<T> create(Ranks& ranks, const WorkloadOptions& options, std::uint64_t size,
                                std::uint64_t budget_bytes) {
    SharedVectorOptions vector;
    vector.budget_bytes = budget_bytes;
    vector.page_size_bytes = options.page_size_bytes.value_or(vector.page_size_bytes);
    vector.stripe_bytes = std::max(vector.stripe_bytes, vector.page_size_bytes);
    vector.advice = options.advice;
    vector.read_ahead_bytes = options.read_ahead_bytes;
    return SharedVector<T>::create(ranks.job(), "grid", 2 * size * size * size, vector);
  }

  // There is one step to a pass, which goes through the planes in order: the vector's read-ahead sees that.
  void begin_pass(std::uint64_t, std::uint64_t) override {}
  void passed(std::uint64_t) override {}
  void end_pass() override {}
  void save() override { publish(); }
  Halo<T>* halo() noexcept override { return &halo_; }
  void publish() override {
    if (cells_of_all_.phase() != Phase::read_only) {
      cells_of_all_.set_phase(Phase::read_only);
    }
  }
  void keep_as(const std::string& url) override { cells_of_all_.save(url); }
  MessageCounts messages() const override {
    MessageCounts messages;
    messages.add(cells_of_all_.statistics());
    messages.add(halo_.statistics());
    return messages;
  }

 private:
  SharedVector<T> cells_of_all_;
  Halo<T> halo_;
};

}  // namespace

template <typename T>
std::unique_ptr<Grid<T>> Grid<T>::make_shared(Ranks& ranks, const WorkloadOptions& options, std::uint64_t size,
                                              std::uint64_t budget_bytes) {
  return std::make_unique<SharedGrid<T>>(ranks, size, SharedGrid<T>::create(ranks, options, size, budget_bytes));
}

template <typename T>
std::unique_ptr<Grid<T>> Grid<T>::make(MemorySystem& system, const WorkloadOptions& options, std::uint64_t size,
                                       const Backing& backing) {
  if (system.cache() != nullptr) {
    return std::make_unique<VectorGrid<T>>(system, options, size, VectorGrid<T>::open(system, options, backing));
  }
  return std::make_unique<MappedGrid<T>>(options, size, system.budget_bytes(), system.map(backing, Access::read_write));
}

template class Grid<float>;
template class Grid<double>;

}  // namespace tiermap
