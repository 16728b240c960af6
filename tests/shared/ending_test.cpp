// How jobs end: what they opened is where it is to last when the last rank has ended its part.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "cluster/served_stores.hpp"
#include "tiermap/job.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

/// Is durable when the test says so.
class DurableLater final : public Store {
 public:
  std::uint64_t size_bytes() const override { return 4096; }
  std::int64_t read(void*, std::size_t, std::uint64_t) override { return 0; }
  bool writable() const override { return true; }
  std::string name() const override { return "later"; }
  int flush() override {
    std::call_once(once_, [this] {
      begun_.set_value();
      may_end_.get_future().wait();
      durable_ = true;
    });
    return 0;
  }
  void wait_until_it_flushes() { begun_.get_future().wait(); }
  void let_end() { may_end_.set_value(); }
  bool durable() const { return durable_; }

 private:
  std::once_flag once_;
  std::promise<void> begun_;
  std::promise<void> may_end_;
  std::atomic<bool> durable_{false};
};

TEST(EndingTest, WhatWasOpenedIsDurableAndFreeWhenTheJobHasEnded) {
  const auto later = std::make_shared<DurableLater>();
  ServerOptions options = test_server_options("set", later);
  const ServedStores served(1, options);
  std::thread durable([&] {
    later->wait_until_it_flushes();
    later->let_end();
  });
  {
    Job job(one_rank_on(served));
    SharedVector<std::uint64_t>::open(job, "set").close();
    job.end();
    EXPECT_TRUE(later->durable());
  }
  Job next(one_rank_on(served));
  EXPECT_NO_THROW(SharedVector<std::uint64_t>::open(next, "set").close());
  next.end();
  durable.join();
}

}  // namespace
}  // namespace tiermap
