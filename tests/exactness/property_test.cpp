// Regions against plain arrays: random loads, stores and calls from several threads, and after every round each word
// must be what was last stored there. Each thread owns every n-th word, so that what it must find is exact while
// neighbours share cache lines, blocks and pages with it. TIERMAP_TEST_SEED=n repeats a run (as far as threads can be
// repeated).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "exactness/engine_setting.hpp"
#include "exactness/pairwise.hpp"
#include "exactness/store_kinds.hpp"
#include "exactness/watchdog.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

using Random = std::mt19937_64;

constexpr std::uint64_t thread_count = 4;
/// Three quarters of it are more than all that a case maps.
constexpr std::uint64_t plenty_bytes = std::uint64_t{192} << 20;

enum class Budget : std::uint8_t { least, quarter, plenty };

struct Case {
  StoreKind store;
  std::string policy;
  EngineSetting engine;
  std::vector<std::uint64_t> page_sizes;
  Budget budget;
  bool manual_flush;
};

void PrintTo(const Case& tested, std::ostream* stream) {
  *stream << kind_name(tested.store) << " " << tested.policy;
}

std::uint64_t base_seed() {
  if (const char* text = std::getenv("TIERMAP_TEST_SEED")) {
    return std::strtoull(text, nullptr, 10);
  }
  return std::random_device()();
}

// One region, what it must hold, and the store below. Everything but touch() is for one thread at a time.
class Tested {
 public:
  Tested(const Case& tested, std::uint64_t page_bytes, std::uint64_t seed)
      : chosen_page_bytes_(page_bytes),
        page_bytes_(page_bytes == 0 ? default_page_bytes : page_bytes),
        manual_flush_(tested.manual_flush),
        kernel_(tested.engine.mode == FaultMode::kernel),
        store_words_(std::max<std::uint64_t>(128 << 10, page_bytes_ * 6 / 8) + 771),
        store_(tested.store, store_words_, seed),
        reference_(store_words_ * (store_.growable() ? 2 : 1)) {
    for (std::uint64_t word = 0; word < reference_.size(); ++word) {
      reference_[word] = store_.initial(word);
    }
  }

  void map(Cache& cache, Random& random) {
    if (store_.kind() == StoreKind::overlay) {  // What was written to it is gone, and must be.
      for (std::uint64_t word = 0; word < reference_.size(); ++word) {
        reference_[word] = store_.initial(word);
      }
    }
    offset_words_ = random() % 3 * 512;
    words_ = random() % 2 == 0 ? store_words_ - offset_words_ : store_words_ / 2 + random() % (store_words_ / 3);
    RegionOptions options;
    options.access = Access::read_write;
    options.sharing = store_.sharing();
    options.offset = offset_words_ * 8;
    options.length = words_ * 8;
    options.reserve_bytes = (reference_.size() - offset_words_) * 8;
    options.manual_flush = manual_flush_;
    options.advice = static_cast<Advice>(random() % 3);
    if (chosen_page_bytes_ != 0) {
      options.page_size_bytes = chosen_page_bytes_;
    }
    options.read_ahead_bytes = random() % 2 == 0 ? 0 : page_bytes_ * 8;
    region_ = cache.map(store_.open(), options);
  }

  Region& region() { return region_; }
  std::uint64_t words() const { return words_; }
  const TestStore& store() const { return store_; }

  /// Loads or stores some words of one thread's in [from, limit), near each other. False, and a failure, on the first
  /// wrong one.
  bool touch(Random& random, std::uint64_t thread, std::uint64_t from, std::uint64_t limit_words) {
    auto* words = reinterpret_cast<volatile std::uint64_t*>(region_.data());
    std::uint64_t word = (from + random() % (limit_words - from)) / thread_count * thread_count + thread;
    const std::uint64_t step = thread_count * (random() % 4 == 0 ? 1 + random() % 512 : 1);
    const bool store = random() % 2 == 0;
    for (std::uint64_t left = random() % 24 + 1; left > 0 && word < limit_words; --left, word += step) {
      std::uint64_t& expected = reference_[offset_words_ + word];
      if (const std::uint64_t found = words[word]; found != expected) {
        ADD_FAILURE() << "word " << word << " of " << words_ << ", page size " << page_bytes_ << ", page "
                      << word * 8 / page_bytes_ << ": found " << found << ", expected " << expected;
        return false;
      }
      if (store) {
        words[word] = expected = random();
      }
    }
    return true;
  }

  void check_all() {
    const auto* words = reinterpret_cast<const volatile std::uint64_t*>(region_.data());
    for (std::uint64_t word = 0; word < words_; ++word) {
      const std::uint64_t found = words[word];
      if (found != reference_[offset_words_ + word]) {  // There are millions of them.
        FAIL() << "word " << word << " of " << words_ << ", page size " << page_bytes_ << ": found " << found
               << ", expected " << reference_[offset_words_ + word];
      }
    }
  }

  /// Under manual flushing: changes words and drops the changes. Nobody may have asked for a flush yet.
  void change_and_discard(Random& random) {
    if (manual_flush_) {
      auto* words = reinterpret_cast<volatile std::uint64_t*>(region_.data());
      for (int count = 0; count < 500; ++count) {
        words[random() % words_] = random();
      }
      region_.discard({0, words_ * 8});
    }
  }
  /// What was synchronised is all there again afterwards. Fault mode kernel refuses it of some files, and drops a
  /// private copy's changes.
  void sync_and_discard() {
    if (!kernel_) {
      region_.sync();
      region_.discard({0, words_ * 8});
    }
  }

  ByteRange random_range(Random& random, std::uint64_t most_bytes) const {
    const std::uint64_t offset = random() % (words_ * 8);
    return {offset, std::min(random() % most_bytes + 1, words_ * 8 - offset)};
  }

  std::uint64_t random_length_words(Random& random) const {
    const std::uint64_t most = reference_.size() - offset_words_;
    return most / 4 + random() % (most / 4 * 3);
  }
  void resize(std::uint64_t words) {
    if (manual_flush_) {  // Else what is cut off would be dropped, and a changed page would not be cut.
      region_.sync();
    }
    region_.resize(words * 8);
    if (store_.kind() == StoreKind::overlay && kernel_) {  // There, what is cut off is forgotten, by whole pages.
      const std::uint64_t end = std::min<std::uint64_t>(reference_.size(), offset_words_ + (words_ + 511) / 512 * 512);
      for (std::uint64_t word = offset_words_ + (words + 511) / 512 * 512; word < end; ++word) {
        reference_[word] = store_.initial(word);
      }
    }
    words_ = words;
  }

  /// How many of the first `kept` words may be written to while the region is resized: under manual flushing a page
  /// that is cut must have no unwritten changes.
  std::uint64_t writable_words(std::uint64_t kept) const {
    return manual_flush_ ? kept * 8 / page_bytes_ * page_bytes_ / 8 : kept;
  }

 private:
  static constexpr std::uint64_t default_page_bytes = 64 << 10;

  const std::uint64_t chosen_page_bytes_;  ///< 0: none.
  const std::uint64_t page_bytes_;
  const bool manual_flush_;
  const bool kernel_;
  const std::uint64_t store_words_;
  TestStore store_;
  std::vector<std::uint64_t> reference_;
  Region region_;
  std::uint64_t offset_words_ = 0;
  std::uint64_t words_ = 0;
};

class Property : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Cache> make_cache() {
    CacheOptions options = cache_options(GetParam().engine, plenty_bytes);
    options.policy = GetParam().policy;
    options.fillers = 1 + static_cast<std::uint32_t>(random_() % 3);
    options.evictors = 1 + static_cast<std::uint32_t>(random_() % 2);
    options.managers = 1 + static_cast<std::uint32_t>(random_() % 2);
    options.shards = 1 + static_cast<std::uint32_t>(random_() % 2);
    return std::make_unique<Cache>(options);
  }

  void map_all() {
    cache_ = make_cache();
    for (const auto& piece : pieces_) {
      piece->map(*cache_, random_);
    }
    std::uint64_t mapped = 0;
    for (const auto& piece : pieces_) {
      mapped += piece->words() * 8;
    }
    // In manual mode what is dirty must fit.
    const bool all = GetParam().budget == Budget::plenty || GetParam().manual_flush;
    const std::uint64_t least = cache_->minimum_budget_bytes();
    budget_ = all ? plenty_bytes : GetParam().budget == Budget::least ? least : std::max(least, mapped / 4);
    cache_->set_budget_bytes(budget_);
    EXPECT_LE(cache_->statistics().resident_bytes, budget_);
  }

  // Pins made meanwhile can stand in the way; in fault mode kernel also pages that the kernel does not give up.
  void set_budget(std::uint64_t bytes) {
    try {
      cache_->set_budget_bytes(bytes);
    } catch (const OptionError&) {  // More is pinned by now than when the least was asked for.
    } catch (const Error& error) {
      EXPECT_EQ(error.code().value(), ENOMEM) << error.what();
    }
  }

  void change_budget(Random& random) {
    const std::uint64_t least = GetParam().manual_flush ? plenty_bytes / 4 * 3 : cache_->minimum_budget_bytes();
    const std::uint64_t most = std::max(budget_, 2 * least);
    set_budget(least + random() % (most - least));
  }

  // Everything a thread may do while others do the same.
  void act(Tested& piece, Random& random, std::uint64_t thread, std::vector<ByteRange>& pinned) {
    Region& region = piece.region();
    switch (random() % 64) {
      case 0:
        region.sync(piece.random_range(random, 1 << 20));
        break;
      case 1:
        region.flush(piece.random_range(random, 1 << 20));
        break;
      case 2: {
        const ByteRange ranges[] = {piece.random_range(random, 1 << 18), piece.random_range(random, 1 << 18)};
        const Prefetch prefetch = region.prefetch(ranges);
        if (random() % 2 == 0) {
          prefetch.wait();
        }
        break;
      }
      case 3:
        region.advise(static_cast<Advice>(random() % 7), piece.random_range(random, 1 << 18));
        break;
      case 4: {
        const ByteRange range = piece.random_range(random, 1 << 14);
        try {
          region.pin(range);
          pinned.push_back(range);
        } catch (const Error& error) {
          EXPECT_EQ(error.code().value(), ENOMEM) << error.what();
        }
        break;
      }
      case 5:
        if (!pinned.empty()) {
          region.unpin(pinned.back());
          pinned.pop_back();
        }
        break;
      case 6:
        if (random() % 4 == 0) {
          change_budget(random);
        }
        break;
      case 7:
        if (!GetParam().manual_flush) {  // Else what others write meanwhile is in its way (EBUSY).
          region.update(piece.random_range(random, 1 << 18), [&] {
            if (random() % 4 == 0) {
              std::this_thread::sleep_for(std::chrono::microseconds(100));
            }
          });
        }
        break;
      default:
        piece.touch(random, thread, 0, piece.words());
    }
  }

  void storm(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < thread_count; ++thread) {
      threads.emplace_back([this, thread, end, seed = random_()] {
        Random random(seed);
        std::vector<std::vector<ByteRange>> pinned(pieces_.size());
        while (std::chrono::steady_clock::now() < end && !HasFailure()) {
          const std::size_t piece = random() % pieces_.size();
          act(*pieces_[piece], random, thread, pinned[piece]);
        }
        for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
          for (const ByteRange& range : pinned[piece]) {
            pieces_[piece]->region().unpin(range);
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    set_budget(budget_);
    if (GetParam().engine.mode != FaultMode::kernel) {
      EXPECT_EQ(cache_->budget_bytes(), budget_) << "nothing is pinned, and it could not be set";
      EXPECT_LE(cache_->statistics().resident_bytes, budget_);
    }
  }

  // Resizes each region a few times while the other threads use the part of it that stays.
  void resize_under_load() {
    for (const auto& piece : pieces_) {
      const std::uint64_t before = piece->words();
      std::uint64_t lengths[3];
      std::uint64_t kept = before;
      for (std::uint64_t& length : lengths) {
        length = piece->random_length_words(random_);
        kept = std::min(kept, length);
      }
      kept = piece->writable_words(kept);
      std::atomic<bool> stop{kept == 0};
      std::vector<std::thread> threads;
      for (std::uint64_t thread = 1; thread < thread_count; ++thread) {
        threads.emplace_back([&, thread, seed = random_()] {
          Random random(seed);
          // Near the end of what stays too: the page that is cut is the one at risk.
          const std::uint64_t near_end = kept - std::min<std::uint64_t>(kept, 2048);
          while (!stop.load() && piece->touch(random, thread, 0, kept) &&
                 piece->touch(random, thread, near_end, kept)) {
          }
        });
      }
      for (const std::uint64_t length : lengths) {
        piece->resize(length);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      stop.store(true);
      for (std::thread& thread : threads) {
        thread.join();
      }
    }
  }

  const std::uint64_t seed_ = base_seed();
  Random random_{seed_};
  std::vector<std::unique_ptr<Tested>> pieces_;
  std::unique_ptr<Cache> cache_;
  std::uint64_t budget_ = 0;  ///< While nobody changes it.
};

TEST_P(Property, EveryWordIsWhatWasLastStored) {
  std::printf("TIERMAP_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed_));
  std::fflush(stdout);
  const Watchdog watchdog("property test, seed " + std::to_string(seed_), std::chrono::seconds(120));
  for (const std::uint64_t page_bytes : GetParam().page_sizes) {
    pieces_.push_back(std::make_unique<Tested>(GetParam(), page_bytes, seed_));
  }
  // Mapped again with other objects, as a new program would: what unmap() wrote back must be all.
  for (int opening = 0; opening < 2 && !HasFailure(); ++opening) {
    map_all();
    for (const auto& piece : pieces_) {
      piece->change_and_discard(random_);
      ASSERT_NO_FATAL_FAILURE(piece->check_all());
    }
    storm(std::chrono::milliseconds(350));
    resize_under_load();
    for (const auto& piece : pieces_) {
      piece->sync_and_discard();
      ASSERT_NO_FATAL_FAILURE(piece->check_all());
    }
    storm(std::chrono::milliseconds(100));
    for (const auto& piece : pieces_) {
      if (GetParam().manual_flush) {  // Nothing else brings it to the store.
        piece->region().sync();
      }
      piece->region().unmap();
      EXPECT_EQ(piece->store().overlap_violations(), 0U);
    }
    EXPECT_EQ(cache_->statistics().resident_bytes, 0U);
    EXPECT_EQ(cache_->statistics().dirty_bytes, 0U);
    EXPECT_EQ(cache_->statistics().mapped_bytes, 0U);
  }
}

std::vector<Case> cases() {
  const std::vector<std::string> policies = {"fifo", "lru", "hot-fifo", "segmented-fifo", "small-main", "cyclic"};
  const std::vector<std::vector<std::uint64_t>> page_mixes = {{4 << 10, 16 << 10, 64 << 10}, {4 << 10, 256 << 10},
                                                              {64 << 10, 8 << 20},           {4 << 10, 2 << 20},
                                                              {16 << 10, 4 << 20},           {64 << 10, 0}};
  const std::vector<FaultMode> modes = {FaultMode::notify, FaultMode::self_serving};
  const std::vector<Placement> placements = {Placement::move, Placement::copy, Placement::automatic};
  std::vector<Case> result;
  for (const std::vector<std::size_t>& row :
       pairwise({store_kind_count, policies.size(), placements.size(), modes.size(), page_mixes.size(), 3, 4})) {
    result.push_back({static_cast<StoreKind>(row[0]),
                      policies[row[1]],
                      {modes[row[3]], placements[row[2]]},
                      page_mixes[row[4]],
                      static_cast<Budget>(row[5]),
                      row[6] == 0});
  }
  return result;
}

std::string case_name(const testing::TestParamInfo<Case>& information) {
  const Case& tested = information.param;
  std::string name = std::to_string(information.index) + "_" + kind_name(tested.store) + "_" + tested.policy;
  name += "_" + engine_name(tested.engine);
  name += "_" + (tested.page_sizes.back() == 0 ? "no" : std::to_string(tested.page_sizes.back() >> 10) + "K");
  name += tested.budget == Budget::least ? "_least" : tested.budget == Budget::quarter ? "_quarter" : "_plenty";
  name += tested.manual_flush ? "_manual" : "";
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Pairs, Property, testing::ValuesIn(cases()), case_name);

// Without userfaultfd there are plain files alone, no policies, and no placement.
std::vector<Case> kernel_cases() {
  std::vector<Case> result;
  for (const StoreKind kind : {StoreKind::file_on_disk, StoreKind::file_in_memory, StoreKind::overlay}) {
    for (const Budget budget : {Budget::least, Budget::quarter, Budget::plenty}) {
      result.push_back(
          {kind, "cyclic", {FaultMode::kernel, Placement::automatic}, {4 << 10, 64 << 10, 1 << 20}, budget, false});
    }
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(Kernel, Property, testing::ValuesIn(kernel_cases()), case_name);

}  // namespace
}  // namespace tiermap
