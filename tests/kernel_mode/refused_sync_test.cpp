// sync() is durable or throws: the calls that make files durable fail, for real, and a store whose flush failed once
// fails from then on (docs/stores.md), also when the calls work again.
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "kernel_mode/refused_calls.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

struct StoreKind {
  const char* name;
  FaultMode mode;

  friend void PrintTo(const StoreKind& kind, std::ostream* output) { *output << kind.name; }
};

class RefusedSync : public RefusedCalls, public ::testing::WithParamInterface<StoreKind> {
 protected:
  static constexpr std::uint64_t part_bytes = mebibyte;

  void SetUp() override {
    RefusedCalls::SetUp();
    if (GetParam().mode == FaultMode::automatic && !can_run(FaultMode::self_serving)) {
      GTEST_SKIP() << "userfaultfd is refused here";
    }
  }

  std::shared_ptr<Store> make_store() {
    const std::string kind = GetParam().name;
    const std::string folder = directory_.encoded();
    if (kind == "sparse") {
      return open_store("sparse://" + folder + "/sparse?segment=1MiB", OpenMode::create, 2 * part_bytes);
    }
    if (kind == "concat") {
      write_file(directory_ / "first", std::string(part_bytes, 'a'));
      write_file(directory_ / "second", std::string(part_bytes, 'a'));
      return open_store("concat://" + folder + "/first," + folder + "/second", OpenMode::read_write);
    }
    return open_store("file:" + folder + "/data.bin", OpenMode::read_write);
  }

  /// The error of a sync() after a write to either half, 0 if it was durable.
  static int error_of_sync(Region& region) {
    region.data()[0] = region.data()[part_bytes] = std::byte{'b'};
    try {
      region.sync();
    } catch (const Error& error) {
      return error.code().value();
    }
    return 0;
  }
};

TEST_P(RefusedSync, ThrowsAndGoesOnThrowing) {
  with(Refusals(), [&]() -> std::string {
    CacheOptions options = automatic();
    options.fault_mode = GetParam().mode;
    Cache cache(options);
    Region region = cache.map(make_store(), writable(2 * part_bytes));
    if (error_of_sync(region) != 0) {
      return "sync failed before anything was refused";
    }
    std::string wrong;
    std::thread([&] {
      // Of this thread alone.
      if (!Refusals().refuse(SYS_fsync, EIO).refuse(SYS_fdatasync, EIO).install()) {
        wrong = "no filter";
      } else if (const int error = error_of_sync(region); error != EIO) {
        wrong = "sync with the calls refused gave error " + std::to_string(error);
      } else if (const int again = error_of_sync(region); again != EIO) {
        wrong = "a second sync with the calls refused gave error " + std::to_string(again);
      }
    }).join();
    if (wrong.empty() && error_of_sync(region) != EIO) {
      wrong = "a sync after one that failed did not fail";
    }
    return wrong;
  });
}

INSTANTIATE_TEST_SUITE_P(All, RefusedSync,
                         ::testing::Values(StoreKind{"file", FaultMode::automatic},
                                           StoreKind{"sparse", FaultMode::automatic},
                                           StoreKind{"concat", FaultMode::automatic},
                                           StoreKind{"kernel_mode_file", FaultMode::kernel}),
                         [](const ::testing::TestParamInfo<StoreKind>& kind) { return std::string(kind.param.name); });

// What goes from memory is written in the background, and the kernel tells an error to whoever asks it first.
class RefusedWriteBack : public RefusedCalls {
 protected:
  /// Calls `end` for a region of which pages could not be written in the background.
  void with_lost_pages(const std::function<void(Region&)>& end) {
    with(Refusals(), [&]() -> std::string {
      std::optional<Cache> cache;
      bool refused = false;
      std::thread([&] {  // And those that it starts: the cache's.
        refused = Refusals().refuse(SYS_sync_file_range, EIO).install();
        cache.emplace(kernel_options(mebibyte));
      })
          .join();
      Region region = cache->map(path(), writable(file_bytes));
      std::memset(region.data(), 'b', file_bytes);
      for (int look = 0; look < 1000 && cache->statistics()[Counter::write_errors] == 0; ++look) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      try {
        end(region);
      } catch (const Error& error) {
        return error.code().value() == EIO ? "" : error.what();
      }
      return refused ? "nobody was told" : "no filter";
    });
  }
};

TEST_F(RefusedWriteBack, InTheBackgroundIsForTheNextSyncToTell) {
  with_lost_pages([](Region& region) { region.sync(); });
}

TEST_F(RefusedWriteBack, InTheBackgroundIsForUnmapToTell) {
  with_lost_pages([](Region& region) { region.unmap(); });
}

}  // namespace
}  // namespace tiermap
