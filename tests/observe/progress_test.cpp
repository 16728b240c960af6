// Progress is shown on a terminal, cleared at the end, and never written into a pipe or a file.
#include "observe/progress.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace tiermap {
namespace {

using Unit = ProgressDisplay::Unit;

TEST(ProgressText, SaysWhatHowFarRateAndTimeLeft) {
  constexpr std::uint64_t gibi = 1 << 30;
  EXPECT_EQ(format_progress("sorting", gibi, 4 * gibi, 512.0 * (1 << 20), 2, Unit::bytes),
            "sorting  25%  1.00 GiB of 4.00 GiB  512 MiB/s  0:06 left");
  EXPECT_EQ(format_progress("edges", 1'500'000, 0, 1000, 75, Unit::items), "edges  1.50 M  1.00 k/s  1:15");
  EXPECT_EQ(format_progress("x", 1, 100'000, 1, 1, Unit::items), "x  0%  1 of 100 k  1/s  27:46:39 left");
  EXPECT_EQ(format_progress("x", 999, 1000, 0, 3, Unit::items), "x  99%  999 of 1.00 k  0/s  0:03");
  EXPECT_EQ(format_progress("x", 2000, 1000, 10, 3, Unit::items), "x  100%  2.00 k of 1.00 k  10/s  0:03");
}

/// What there is to read within some time.
std::string read_for(int descriptor, std::chrono::milliseconds duration) {
  std::string text;
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    pollfd input{descriptor, POLLIN, 0};
    if (::poll(&input, 1, 20) > 0) {
      char buffer[1024];
      const ssize_t got = ::read(descriptor, buffer, sizeof(buffer));
      if (got <= 0) {
        break;
      }
      text.append(buffer, static_cast<std::size_t>(got));
    }
  }
  return text;
}

class Terminal : public testing::Test {
 protected:
  Terminal() {
    ::setenv("TERM", "xterm", 1);
    winsize size{};
    size.ws_col = 60;
    size.ws_row = 10;
    EXPECT_EQ(::openpty(&outer_, &inner_, nullptr, nullptr, &size), 0);
  }
  ~Terminal() override {
    ::close(outer_);
    ::close(inner_);
  }
  int outer_ = -1;
  int inner_ = -1;
};

TEST_F(Terminal, ShowsAndClears) {
  std::string text;
  {
    ProgressDisplay display("counting", 100, Unit::items, inner_);
    EXPECT_TRUE(display.shown());
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&] {
        for (int step = 0; step < 25; ++step) {
          display.add(1);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    text = read_for(outer_, std::chrono::milliseconds(700));
    display.restart("again", 10);
    display.set(10);
    text += read_for(outer_, std::chrono::milliseconds(500));
  }
  EXPECT_NE(text.find("counting  50%  50 of 100"), std::string::npos) << text;
  EXPECT_NE(text.find("again  100%  10 of 10"), std::string::npos) << text;
  const std::string last = read_for(outer_, std::chrono::milliseconds(100));
  EXPECT_TRUE(last.ends_with("\r\x1b[K")) << last;
}

TEST_F(Terminal, ALineNeverFillsTheWidth) {
  std::string text;
  {
    const ProgressDisplay display(std::string(200, 'w'), 100, Unit::items, inner_);
    text = read_for(outer_, std::chrono::milliseconds(500));
  }
  EXPECT_NE(text.find(std::string(59, 'w')), std::string::npos);
  EXPECT_EQ(text.find(std::string(60, 'w')), std::string::npos);
}

TEST_F(Terminal, OneThatCannotClearStaysQuiet) {
  ::setenv("TERM", "dumb", 1);
  {
    ProgressDisplay display("counting", 100, Unit::items, inner_);
    EXPECT_FALSE(display.shown());
    display.add(1);
  }
  EXPECT_EQ(read_for(outer_, std::chrono::milliseconds(300)), "");
}

TEST(ProgressInAPipe, WritesNothing) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    ProgressDisplay display("counting", 100, Unit::items, ends[1]);
    EXPECT_FALSE(display.shown());
    display.add(50);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    display.restart("again", 5);
    display.finish();
    display.finish();
  }
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);
  ::close(ends[0]);
}

}  // namespace
}  // namespace tiermap
