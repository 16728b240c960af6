// LLNL/umap: an I/O error, a closed descriptor, an unaligned prefetch, a signal during poll end the process; exceptions
// cross extern "C"; errno has the wrong sign; a forked child reads zeros.
#include <sys/mman.h>
#include <sys/time.h>

#include <csignal>
#include <memory>
#include <stdexcept>
#include <thread>

#include "umap_fixture.hpp"

namespace tiermap {
namespace {

class SurvivalOfUmapTest : public UmapTest {};

TEST_F(SurvivalOfUmapTest, AReadErrorIsForTheThreadThatFaulted) {
  ScriptedStore store(10 * page);
  std::atomic<bool> broken{true};
  store.on_read = [&](char*, std::size_t, off_t off) -> ssize_t {
    if (!broken.load() || off / static_cast<off_t>(page) != 4) {
      return ScriptedStore::pass;
    }
    errno = EIO;
    return -1;
  };
  std::uint64_t* const region = map_store(store, 10 * page);
  EXPECT_EQ(signal_raised_by([&] { touch(region + 4 * words_a_page); }), SIGBUS);
  EXPECT_EQ(touch(region + 5 * words_a_page), 5 * words_a_page);
  broken.store(false);
  const Watchdog watchdog("the page comes back", std::chrono::seconds(30));
  while (signal_raised_by([&] { touch(region + 4 * words_a_page); }) != 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(touch(region + 4 * words_a_page), 4 * words_a_page);
  EXPECT_EQ(::uunmap(region, 10 * page), 0);
}

TEST_F(SurvivalOfUmapTest, AnExceptionOfAStoreIsAnError) {
  ScriptedStore store(4 * page);
  store.on_read = [](char*, std::size_t, off_t off) -> ssize_t {
    if (off >= static_cast<off_t>(2 * page)) {
      throw std::runtime_error("a store of the program's");
    }
    return ScriptedStore::pass;
  };
  store.on_write = [](char*, std::size_t, off_t) -> ssize_t { throw 42; };
  std::uint64_t* const region = map_store(store, 4 * page);
  EXPECT_EQ(signal_raised_by([&] { touch(region + 3 * words_a_page); }), SIGBUS);
  poke(region, 1);
  errno = 0;
  EXPECT_EQ(::umap_flush(), -1);
  EXPECT_EQ(errno, EIO);
  store.on_write = nullptr;
  EXPECT_EQ(::uunmap(region, 4 * page), 0);
  EXPECT_EQ(store.content[0], 1U);
}

TEST_F(SurvivalOfUmapTest, TheDescriptorMayBeClosed) {
  OpenFile file(folder_ / "file", 4 * page, true, O_RDWR | O_DIRECT);
  std::uint64_t* const region = map_words(file, 4 * page);
  file.close();
  EXPECT_EQ(touch(region + 5), 5U);
  poke(region + 6, 66);
  EXPECT_EQ(::uunmap(region, 4 * page), 0);
  EXPECT_EQ(file.word(6), 66U);
}

// Of others the program's own descriptor is used, and all that is written there goes to the file's end.
TEST_F(SurvivalOfUmapTest, WhatIsOpenForAppendingIsNotAppendedTo) {
  const OpenFile file(folder_ / "file", 4 * page, true, O_RDWR | O_APPEND);
  ASSERT_EQ(::chmod((folder_ / "file").c_str(), 0), 0);
  const int status = status_of_child([&] {
    constexpr uid_t nobody = 65534;
    ASSERT_EQ(::seteuid(::geteuid() == 0 ? nobody : ::geteuid()), 0);
    void* const region = ::umap(nullptr, 4 * page, for_both, UMAP_PRIVATE, file.descriptor(), 0);
    EXPECT_EQ(region == UMAP_FAILED ? errno : 0, EACCES);
    if (region != UMAP_FAILED) {
      poke(static_cast<std::uint64_t*>(region) + 5, 55);
      EXPECT_EQ(::uunmap(region, 4 * page), 0);
    }
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(file.size(), 4 * page);
}

TEST_F(SurvivalOfUmapTest, MemoryFilesAndDeletedFiles) {
  const int memory = ::memfd_create("umap", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(memory, 4 * page), 0);
  void* const region = ::umap(nullptr, 4 * page, for_both, UMAP_PRIVATE, memory, 0);
  ASSERT_NE(region, UMAP_FAILED);
  static_cast<char*>(region)[page] = 9;
  EXPECT_EQ(::uunmap(region, 4 * page), 0);
  char seen = 0;
  EXPECT_EQ(::pread(memory, &seen, 1, page), 1);
  EXPECT_EQ(seen, 9);
  ::close(memory);
  const OpenFile file(folder_ / "file", 4 * page);
  ASSERT_EQ(::unlink((folder_ / "file").c_str()), 0);
  std::uint64_t* const deleted = map_words(file, 4 * page);
  EXPECT_EQ(touch(deleted + 100), 100U);
  EXPECT_EQ(::uunmap(deleted, 4 * page), 0);
}

TEST_F(SurvivalOfUmapTest, UnalignedPrefetchesAndPinsOutsideAreLetPass) {
  const OpenFile file(folder_ / "file", 10 * page);
  std::uint64_t* const region = map_words(file, 10 * page - 100);
  umap_prefetch_item items[] = {{reinterpret_cast<char*>(region) + 3 * page + 17},
                                {reinterpret_cast<char*>(region) + 10 * page - 101},
                                {nullptr},
                                {reinterpret_cast<char*>(region) + 40 * page}};
  ::umap_prefetch(4, items);
  ::umap_fetch_and_pin(reinterpret_cast<char*>(region) + 9 * page + 5, 100 * page);
  errno = 0;
  ::umap_fetch_and_pin(reinterpret_cast<char*>(region) - 5, 1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(touch(region + 9 * words_a_page), 9 * words_a_page);
  EXPECT_EQ(::uunmap(region, 10 * page), 0);
}

volatile std::sig_atomic_t alarms = 0;

TEST_F(SurvivalOfUmapTest, SignalsDoNoHarm) {
  const OpenFile file(folder_ / "file", 200 * page);
  struct sigaction action{};
  action.sa_handler = [](int) { alarms = alarms + 1; };
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval often = {{0, 500}, {0, 500}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  std::uint64_t* const region = map_words(file, 200 * page);
  while (alarms < 50) {
    for (std::size_t index = 0; index < 200; ++index) {
      poke(region + index * words_a_page + 1, index);
    }
    EXPECT_EQ(::umap_flush(), 0);
  }
  EXPECT_EQ(::uunmap(region, 200 * page), 0);
  const itimerval never = {};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(file.word(199 * words_a_page + 1), 199U);
}

TEST_F(SurvivalOfUmapTest, WhatCannotBeMappedIsRefusedWithErrno) {
  ::setenv("UMAP_LOG_LEVEL", "NONE", 1);
  const OpenFile file(folder_ / "file", 4 * page);
  const OpenFile readable(folder_ / "readable", 4 * page, true, O_RDONLY);
  const OpenFile writable(folder_ / "writable", 4 * page, true, O_WRONLY);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  struct Case {
    std::size_t length;
    int protection, flags, descriptor;
    off_t offset;
    int error;
  };
  const int good = file.descriptor();
  for (const Case& bad :
       {Case{0, for_both, UMAP_PRIVATE, good, 0, EINVAL},
        Case{std::size_t{1} << 60, for_both, UMAP_PRIVATE, good, 0, ENOMEM},
        Case{page, PROT_NONE, UMAP_PRIVATE, good, 0, EINVAL},
        Case{page, PROT_READ | PROT_EXEC, UMAP_PRIVATE, good, 0, EINVAL}, Case{page, for_both, 0, good, 0, EINVAL},
        Case{page, for_both, UMAP_PRIVATE | MAP_ANONYMOUS, good, 0, EINVAL},
        Case{page, for_both, UMAP_PRIVATE | UMAP_FIXED, good, 0, EINVAL},
        Case{page, for_both, UMAP_PRIVATE, good, 100, EINVAL}, Case{page, for_both, UMAP_PRIVATE, good, -4096, EINVAL},
        Case{page, for_both, UMAP_PRIVATE, -1, 0, EBADF}, Case{page, for_both, UMAP_PRIVATE, 9999, 0, EBADF},
        Case{page, for_both, UMAP_PRIVATE, readable.descriptor(), 0, EACCES},
        Case{page, for_reading, UMAP_PRIVATE, writable.descriptor(), 0, EACCES},
        Case{page, for_reading, UMAP_PRIVATE, ends[0], 0, EINVAL}}) {
    errno = 0;
    EXPECT_EQ(::umap(nullptr, bad.length, bad.protection, bad.flags, bad.descriptor, bad.offset), UMAP_FAILED);
    EXPECT_EQ(errno, bad.error) << "length " << bad.length << ", protection " << bad.protection << ", flags "
                                << bad.flags << ", offset " << bad.offset;
  }
  ::close(ends[0]);
  ::close(ends[1]);
  void* const region = ::umap(nullptr, page, for_reading, UMAP_PRIVATE, readable.descriptor(), 0);
  ASSERT_NE(region, UMAP_FAILED);
  EXPECT_EQ(signal_raised_by([&] { poke(static_cast<std::uint64_t*>(region), 1); }), SIGSEGV);
  EXPECT_EQ(::uunmap(region, page), 0);
}

TEST_F(SurvivalOfUmapTest, AStoreThatIsGoneIsNotCalled) {
  const int status = status_of_child([] {
    auto store = std::make_unique<ScriptedStore>(4 * page);
    std::uint64_t* const region = map_store(*store, 4 * page);
    poke(region, 1);
    store.reset();
    EXPECT_EQ(signal_raised_by([&] { touch(region + 3 * words_a_page); }), SIGBUS);
    errno = 0;
    EXPECT_EQ(::umap_flush(), -1);
    EXPECT_EQ(errno, EBADF);
    // It stays mapped, with what cannot be written.
    EXPECT_EQ(::uunmap(region, 4 * page), -1);
    EXPECT_EQ(touch(region), 1U);
  });
  EXPECT_EQ(status, 0);
}

TEST_F(SurvivalOfUmapTest, AForkedChildMakesAndDestroysStores) {
  expect_children_beside_threads_to_end([] { const ScriptedStore store(sizeof(std::uint64_t)); });
}

TEST_F(SurvivalOfUmapTest, AForkedChildReadsNoZeros) {
  const OpenFile file(folder_ / "file", 4 * page);
  std::uint64_t* const region = map_words(file, 4 * page);
  poke(region + 7, 70);
  const int touched = status_of_child([&] {
    ::signal(SIGSEGV, SIG_DFL);
    ::_exit(touch(region + 7) == 0 ? 1 : 2);
  });
  EXPECT_TRUE(WIFSIGNALED(touched) && WTERMSIG(touched) == SIGSEGV) << touched;
  const int own = status_of_child([&] {
    errno = 0;
    if (::uunmap(region, 4 * page) != -1 || errno != ECHILD || ::umap_flush() != 0) {
      ::_exit(1);
    }
    void* const again = ::umap(nullptr, 4 * page, for_both, UMAP_PRIVATE, file.descriptor(), 0);
    if (again == UMAP_FAILED || touch(static_cast<std::uint64_t*>(again) + words_a_page) != words_a_page) {
      ::_exit(2);
    }
    poke(static_cast<std::uint64_t*>(again) + words_a_page, 1010);
    ::_exit(::uunmap(again, 4 * page) == 0 ? 0 : 3);
  });
  EXPECT_TRUE(WIFEXITED(own) && WEXITSTATUS(own) == 0) << own;
  EXPECT_EQ(touch(region + 7), 70U);
  EXPECT_EQ(::uunmap(region, 4 * page), 0);
  EXPECT_EQ(file.word(words_a_page), 1010U);
  EXPECT_EQ(file.word(7), 70U);
}

TEST_F(SurvivalOfUmapTest, WhatIsLeftMappedAtTheEndIsWritten) {
  const OpenFile file(folder_ / "file", 20 * page);
  const int status = status_of_child([&] {
    for (std::size_t index = 0; index < 10; ++index) {
      std::uint64_t* const region = map_words(file, 20 * page);
      poke(region + index * words_a_page, 1000 + index);
    }
    std::exit(0);
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  for (std::size_t index = 0; index < 10; ++index) {
    EXPECT_EQ(file.word(index * words_a_page), 1000 + index);
  }
}

TEST_F(SurvivalOfUmapTest, AStoreMayEndTheProcess) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer looks for leaks while the engine's threads run on, and finds what they hold";
#endif
  const Watchdog watchdog("exit() in a store", std::chrono::seconds(30));
  const int status = status_of_child([&] {
    ScriptedStore store(20 * page);
    store.on_read = [](char*, std::size_t, off_t off) -> ssize_t {
      if (off >= static_cast<off_t>(5 * page)) {
        std::exit(7);
      }
      return ScriptedStore::pass;
    };
    std::uint64_t* const region = map_store(store, 20 * page);
    for (std::size_t index = 0; index < 20; ++index) {
      poke(region + index * words_a_page, 1);
    }
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

}  // namespace
}  // namespace tiermap
