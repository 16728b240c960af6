// How jobs end: what they opened is where it is to last when the last rank has ended its part.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cluster/served_stores.hpp"
#include "shared/rank_processes.hpp"
#include "store/forwarding_store.hpp"
#include "store/memory_store.hpp"
#include "tiermap/job.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

/// Is durable when the test says so.
class DurableLater final : public ForwardingStore {
 public:
  DurableLater() : ForwardingStore(std::make_shared<MemoryStore>(4096)) {}
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

/// Takes what is written, and can never say that it is durable.
class NeverDurable final : public ForwardingStore {
 public:
  NeverDurable() : ForwardingStore(std::make_shared<MemoryStore>(4096)) {}
  int flush() override { return -ENOSPC; }
};

TEST(EndingTest, WhatItsStoreDoesNotTakeIsAnErrorOfTheJobsEndOnEveryRank) {
  const ServedStores served(1, test_server_options("set", std::make_shared<NeverDurable>()));
  const auto end_of = [&](std::uint32_t rank) {
    JobOptions options = one_rank_on(served);
    options.rank = rank;
    options.ranks = 2;
    Job job(options);
    SharedVector<std::uint64_t>::open(job, "set").close();
    try {
      job.end();
      return std::string();
    } catch (const StoreError& error) {
      EXPECT_EQ(error.code().value(), ENOSPC);
      return std::string(error.what());
    }
  };
  for (int turn = 0; turn < 2; ++turn) {  // All have left all the same: the next job may use it.
    std::future<std::string> other = std::async(std::launch::async, end_of, 1);
    for (const std::string& told : {end_of(0), other.get()}) {
      EXPECT_NE(told.find(": data set 'set' could not be written to "), std::string::npos) << told;
    }
  }
}

/// Of whose threads one waits for the server, with locks of the job's.
TEST(EndingTest, AChildThatARankForksEndsAndTheJobIsTheRanks) {
  const Servers servers;
  RankProcesses processes(1, [&](std::uint32_t rank) {
    auto job = std::make_unique<Job>(servers.job(rank, 1));
    std::optional<SharedVector<int>> vector(SharedVector<int>::create(*job, "v", 1000));
    std::optional<JobLock> lock(job->lock("x"));
    (*vector)[0] = 1;
    servers.processes[0]->signal(SIGSTOP);
    std::thread unlocking([&] { lock->unlock(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      const std::string told = refusal_of([&] { job->barrier(); });
      const std::string told_too = refusal_of([&] { vector->acquire(); });
      lock.reset();
      vector.reset();
      job.reset();
      ::_exit(told == told_too && told.ends_with("is the process that forked this one: leave the job to it") ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    servers.processes[0]->signal(SIGCONT);
    unlocking.join();
    vector->acquire();
    EXPECT_EQ((*vector)[0], 1);
    vector->close();
    job->end();
  });
  processes.expect_success();
}

}  // namespace
}  // namespace tiermap
