// What counts as a program's own work, by which `tiermap tune` compares runs that are cut off.
#include "tune/own_work.hpp"

#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include "platform/engine_thread.hpp"

namespace tiermap {
namespace {

/// Processor time of the calling thread.
void compute(double seconds) {
  timespec time{};
  volatile std::uint64_t number = 0;
  do {
    for (int step = 0; step < 1'000'000; ++step) {
      number = number + 1;
    }
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  } while (static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9 < seconds);
}

/// What is counted while a thread of that name computes. It still runs at the last look.
double counted(const char* name, double seconds) {
  OwnWork before;
  before.look_at(::getpid());
  OwnWork after;
  start_engine_thread(name, [&] {
    compute(seconds);
    after.look_at(::getpid());
  }).join();
  return after.seconds() - before.seconds();
}

constexpr double seconds = 0.4;

TEST(OwnWork, CountsWhatTheProgramComputes) {
  EXPECT_GT(counted("tiermap-kmeans", seconds), seconds / 2);
}

TEST(OwnWork, DoesNotCountWhatTheEngineComputes) {
  for (const char* const name : {"tiermap-fill", "tiermap-evict", "tiermap-write", "tiermap-parquet", "tiermap-tiers",
                                 "tiermap-wire", "tm-s3-upload"}) {
    EXPECT_LT(counted(name, seconds), seconds / 2) << name;
  }
}

}  // namespace
}  // namespace tiermap
