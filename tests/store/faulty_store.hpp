// A Store around another one that fails, stalls or returns short when a test says so, and that watches its callers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tiermap/store.hpp"

namespace tiermap {

/// Header only. All members may be called at any time from any thread. Unless pass_extents(true) is called, all I/O
/// goes through read() and write(), so that nothing bypasses the faults.
///
/// A rule picks calls and says what happens to them; the first that fits is taken:
///   store.on_read([](auto call) { return call.number == 3 ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
class FaultyStore final : public Store {
 public:
  /// One call as a rule sees it. Numbers count from 0, reads, writes, flushes and resizes apart.
  struct Call {
    std::uint64_t number;
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  /// What happens to a call: first the stall, then the error, or at most `most_bytes` moved.
  struct Fault {
    int error = 0;  ///< Positive errno value; 0: none.
    std::uint64_t most_bytes = UINT64_MAX;
    bool stall = false;  ///< Until release().
    std::chrono::milliseconds delay{0};
  };
  using Rule = std::function<Fault(const Call&)>;

  static Fault pass() { return {}; }
  static Fault fail(int error) { return {error, UINT64_MAX, false, {}}; }
  static Fault cut(std::uint64_t bytes) { return {0, bytes, false, {}}; }
  static Fault stall() { return {0, UINT64_MAX, true, {}}; }
  static Fault delay(std::chrono::milliseconds time) { return {0, UINT64_MAX, false, time}; }

  explicit FaultyStore(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}
  ~FaultyStore() override { release(); }

  void on_read(Rule rule) { set(read_rule_, std::move(rule)); }
  void on_write(Rule rule) { set(write_rule_, std::move(rule)); }
  void on_flush(Rule rule) { set(flush_rule_, std::move(rule)); }
  void on_resize(Rule rule) { set(resize_rule_, std::move(rule)); }
  /// Lets every call that stalls go on; calls made later stall again.
  void release() {
    const std::lock_guard lock(mutex_);
    ++releases_;
    released_.notify_all();
  }
  /// Whether locate_read() and locate_write() go to the inner store.
  void pass_extents(bool pass) { pass_extents_.store(pass); }

  std::uint64_t reads() const { return reads_.load(); }
  std::uint64_t writes() const { return writes_.load(); }
  std::uint64_t flushes() const { return flushes_.load(); }
  std::uint64_t read_bytes() const { return read_bytes_.load(); }
  std::uint64_t written_bytes() const { return written_bytes_.load(); }
  std::uint64_t stalled() const { return stalled_.load(); }
  std::uint64_t most_reads_at_once() const { return most_reads_.load(); }
  std::uint64_t most_writes_at_once() const { return most_writes_.load(); }
  /// Calls that overlapped another one while one of the two was a write: what the engine must never do.
  std::uint64_t overlap_violations() const { return violations_.load(); }

  std::uint64_t size_bytes() const override { return inner_->size_bytes(); }
  bool writable() const override { return inner_->writable(); }
  bool growable() const override { return inner_->growable(); }
  std::uint32_t direct_alignment() const override { return inner_->direct_alignment(); }
  std::uint32_t max_reads_in_flight() const override { return inner_->max_reads_in_flight(); }
  std::uint32_t max_writes_in_flight() const override { return inner_->max_writes_in_flight(); }
  std::string name() const override { return "faulty " + inner_->name(); }

  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const Watch watch(*this, {offset, offset + bytes, false}, most_reads_);
    const Fault fault = decide(read_rule_, {reads_.fetch_add(1), offset, bytes});
    if (fault.error != 0) {
      return -fault.error;
    }
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, fault.most_bytes));
    const std::int64_t got = inner_->read(buffer, take, offset);
    read_bytes_.fetch_add(got > 0 ? static_cast<std::uint64_t>(got) : 0);
    return got;
  }

  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    const Watch watch(*this, {offset, offset + bytes, true}, most_writes_);
    const Fault fault = decide(write_rule_, {writes_.fetch_add(1), offset, bytes});
    if (fault.error != 0) {
      return -fault.error;
    }
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, fault.most_bytes));
    const std::int64_t put = inner_->write(buffer, take, offset);
    written_bytes_.fetch_add(put > 0 ? static_cast<std::uint64_t>(put) : 0);
    return put;
  }

  int flush() override {
    const Fault fault = decide(flush_rule_, {flushes_.fetch_add(1), 0, 0});
    return fault.error != 0 ? -fault.error : inner_->flush();
  }

  int resize(std::uint64_t bytes) override {
    const Fault fault = decide(resize_rule_, {resizes_.fetch_add(1), 0, bytes});
    return fault.error != 0 ? -fault.error : inner_->resize(bytes);
  }

  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override {
    return pass_extents_.load() && inner_->locate_read(offset, bytes, extent);
  }

  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override {
    return pass_extents_.load() && inner_->locate_write(offset, bytes, extent);
  }

 private:
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    bool writing;
  };

  /// Keeps a call's range in the list of those in flight.
  class Watch {
   public:
    Watch(FaultyStore& store, Range range, std::atomic<std::uint64_t>& most) : store_(store), range_(range) {
      const std::lock_guard lock(store_.mutex_);
      std::uint64_t alike = 1;
      for (const Range& other : store_.in_flight_) {
        alike += other.writing == range.writing ? 1 : 0;
        const bool overlap = other.begin < range.end && range.begin < other.end;
        store_.violations_ += overlap && (other.writing || range.writing) ? 1 : 0;
      }
      most.store(std::max(most.load(), alike));
      store_.in_flight_.push_back(range);
    }
    ~Watch() {
      const std::lock_guard lock(store_.mutex_);
      auto& list = store_.in_flight_;
      list.erase(std::find_if(list.begin(), list.end(), [this](const Range& other) {
        return other.begin == range_.begin && other.end == range_.end && other.writing == range_.writing;
      }));
    }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    FaultyStore& store_;
    const Range range_;
  };

  void set(Rule& rule, Rule value) {
    const std::lock_guard lock(mutex_);
    rule = std::move(value);
  }

  Fault decide(const Rule& rule, const Call& call) {
    std::unique_lock lock(mutex_);
    const Fault fault = rule ? rule(call) : Fault();
    if (fault.stall) {
      const std::uint64_t seen = releases_;
      stalled_.fetch_add(1);
      released_.wait(lock, [&] { return releases_ != seen; });
      stalled_.fetch_sub(1);
    }
    if (fault.delay.count() > 0) {
      released_.wait_for(lock, fault.delay, [] { return false; });
    }
    return fault;
  }

  const std::shared_ptr<Store> inner_;
  std::mutex mutex_;
  std::condition_variable released_;
  std::uint64_t releases_ = 0;
  Rule read_rule_;
  Rule write_rule_;
  Rule flush_rule_;
  Rule resize_rule_;
  std::vector<Range> in_flight_;
  std::atomic<bool> pass_extents_{false};
  std::atomic<std::uint64_t> reads_{0}, writes_{0}, flushes_{0}, resizes_{0};
  std::atomic<std::uint64_t> read_bytes_{0}, written_bytes_{0}, stalled_{0};
  std::atomic<std::uint64_t> most_reads_{0}, most_writes_{0}, violations_{0};
};

}  // namespace tiermap
