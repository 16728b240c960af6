// A consistency checker: several ranks run a random program each, of writes, transactions, streams, locks, updates and
// what all read together, between barriers, and phases in which nobody writes. Every rank can compute what any rank
// does in any round, so each knows what may be seen when.
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <random>

#include "shared/rank_processes.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t owned = 20'000;  ///< Elements that one rank a round writes.
constexpr std::uint64_t counted = 1000;  ///< Behind them: sums that are added to under a lock.
constexpr std::uint64_t locks = 7;
constexpr std::uint64_t updated = 1000;  ///< Behind those: pairs that are equal, by update().
constexpr std::uint64_t elements = owned + counted + updated;

/// What a program looks like; the same for all ranks.
struct Setting {
  std::uint64_t seed = 0;
  std::uint32_t ranks = 0;
  std::size_t servers = 0;
  SharedVectorOptions options;
  std::uint32_t nodes = 1;
  JobOptions tree;  ///< What of it says how ranks read together, and what those of a node keep for each other.

  JobOptions job(const Servers& of, std::uint32_t rank) const {
    JobOptions job = of.job(rank, ranks);
    job.host = host_of_node(rank % nodes);
    job.tree_degree = tree.tree_degree;
    job.relay_bytes = tree.relay_bytes;
    job.node_cache_bytes = tree.node_cache_bytes;
    return job;
  }
};

Setting draw_setting(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Setting setting;
  setting.seed = seed;
  setting.ranks = static_cast<std::uint32_t>(2 + random() % 3);
  setting.servers = 1 + random() % 2;
  setting.options.page_size_bytes = std::uint64_t{4096} << random() % 4;
  setting.options.stripe_bytes = setting.options.page_size_bytes << random() % 3;
  setting.options.budget_bytes = std::uint64_t{1} << (20 + random() % 3);
  setting.options.scratch_folder = ".";
  setting.options.same_address = random() % 2 == 0;
  setting.nodes = static_cast<std::uint32_t>(1 + random() % setting.ranks);
  setting.tree.tree_degree = static_cast<std::uint32_t>(1 + random() % 3);
  setting.tree.relay_bytes = (std::uint64_t{1} << (12 + random() % 8)) - 4096;
  // Nothing, less than the vector, or room for all of it.
  setting.tree.node_cache_bytes = random() % 4 == 0 ? 0 : std::uint64_t{64 << 10} << random() % 5;
  return setting;
}

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

/// Rounds of one rank's program.
class Program {
 public:
  Program(const Setting& setting, Job& job)
      : setting_(setting),
        job_(job),
        vector_(SharedVector<std::uint64_t>::create(job, "v", elements, setting.options)),
        model_(owned),
        before_(owned) {}

  void run(std::uint64_t rounds) {
    for (round_ = 1; round_ <= rounds; ++round_) {
      play();
      job_.barrier();
      check_somehow(mix(setting_.seed + round_ * 3));
      job_.barrier();
    }
    vector_.close();
  }

 private:
  std::mt19937_64 random_of(std::uint32_t rank) const {
    return std::mt19937_64(mix(setting_.seed + round_ * 1000 + rank));
  }
  std::uint64_t value(std::uint64_t index) const { return mix(round_ * elements + index); }
  /// Of each element one rank, or none; in runs, or one by one.
  std::uint32_t owner(std::uint64_t index) const {
    const std::uint64_t run = mix(setting_.seed ^ round_) % 3 == 0 ? 1 : 1 + mix(round_) % 700;
    return static_cast<std::uint32_t>(mix(index / run * 31 + round_ + setting_.seed) % (setting_.ranks + 1));
  }
  /// How much a rank adds to what.
  struct Addition {
    std::uint64_t index;
    std::uint64_t summand;
  };
  std::vector<Addition> additions(std::uint32_t rank, std::uint64_t most) const {
    std::mt19937_64 random = random_of(rank + 100);
    std::vector<Addition> all(random() % most);
    for (Addition& one : all) {
      one = {random() % counted, 1 + random() % 9};
    }
    return all;
  }

  void play() {
    before_ = model_;
    for (std::uint64_t index = 0; index < owned; ++index) {
      if (owner(index) < setting_.ranks) {
        model_[index] = value(index);
      }
    }
    seen_.assign(owned, false);
    std::mt19937_64 random = random_of(job_.rank());
    std::unique_ptr<SharedTogether<std::uint64_t>> together;
    if (mix(setting_.seed + round_) % 2 == 0) {  // By all, or by none; what is not read so is written meanwhile.
      const std::uint64_t first = mix(round_) % owned;
      const VectorRange range{first, 1 + mix(round_ + 1) % (owned - first)};
      together.reset(new SharedTogether<std::uint64_t>(vector_.read_together(range)));
      look_together(*together, first, random() % 3);
    }
    std::vector<int> steps{0, 1, 2, 3};
    std::shuffle(steps.begin(), steps.end(), random);
    for (const int step : steps) {
      switch (step) {
        case 0:
          write_owned(random);
          break;
        case 1:
          add_under_locks();
          break;
        case 2:
          add_by_updates();
          break;
        default:
          look(random);
      }
    }
  }

  void write_owned(std::mt19937_64& random) {
    const std::uint64_t how = random() % 4;
    if (how == 0) {  // By streams, a run each.
      for (std::uint64_t index = 0; index < owned;) {
        std::uint64_t end = index;
        for (; end < owned && owner(end) == job_.rank(); ++end) {
        }
        if (end > index) {
          auto writer = vector_.write({index, end - index});
          std::uint64_t at = index;
          for (auto piece = writer.next(); !piece.empty(); piece = writer.next()) {
            for (std::uint64_t& element : piece) {
              element = value(at++);
            }
          }
          writer.commit();
        }
        index = end + 1;
      }
      return;
    }
    if (how == 1) {
      auto transaction = vector_.read_write({0, owned});
      std::uint64_t index = 0;
      transaction.for_each([&](std::uint64_t& element) {
        if (owner(index) == job_.rank()) {
          element = value(index);
        }
        ++index;
      });
      transaction.commit();
      return;
    }
    for (std::uint64_t index = 0; index < owned; ++index) {
      if (owner(index) == job_.rank()) {
        vector_[index] = value(index);
      }
      if (how == 2 && random() % 5000 == 0) {
        vector_.release();
      }
      if (random() % 5000 == 0) {
        vector_.acquire();
      }
    }
  }

  void add_under_locks() {
    for (const Addition& one : additions(job_.rank(), 20)) {
      JobLock lock = job_.lock("lock " + std::to_string(one.index % locks));
      vector_[owned + one.index] += one.summand;
      lock.unlock();
    }
  }

  void add_by_updates() {
    for (const Addition& one : additions(job_.rank() + setting_.ranks, 30)) {
      const std::uint64_t index = owned + counted + one.index / 2 * 2;
      vector_.update({index, 2}, [&](std::span<std::uint64_t> pair) {
        ASSERT_EQ(pair[0], pair[1]);
        pair[0] += one.summand;
        pair[1] += one.summand;
      });
    }
  }

  /// While others write: what was there before the round, or what will be there after it, and never again the first
  /// once the second was seen.
  void look_at(std::uint64_t index, std::uint64_t seen) {
    ASSERT_TRUE((seen == before_[index] && !seen_[index]) || seen == model_[index]) << index << " in round " << round_;
    seen_[index] = seen_[index] || (seen == model_[index] && seen != before_[index]);
  }

  void look(std::mt19937_64& random) {
    for (int turn = 0; turn < 200; ++turn) {
      const std::uint64_t index = random() % owned;
      look_at(index, vector_[index]);
    }
  }

  /// All of it, half of it, or nothing.
  void look_together(SharedTogether<std::uint64_t>& together, std::uint64_t index, std::uint64_t how) {
    for (auto piece = together.next(); !piece.empty() && how > 0; piece = how == 1 ? piece.first(0) : together.next()) {
      for (const std::uint64_t element : piece) {
        look_at(index++, element);
      }
    }
  }

  /// All ranks alike.
  void check_somehow(std::uint64_t how) {
    add_up_sums();
    const bool read_only = how % 2 == 0;
    if (read_only) {
      vector_.set_phase(Phase::read_only);
    }
    if (how / 2 % 3 == 0) {
      const auto together = vector_.read_together({0, elements});
      check();
    } else {
      check();
    }
    if (read_only && how / 6 % 2 == 0) {  // All of it anew, of what the node's cache has of it.
      vector_.set_phase(how / 12 % 2 == 0 ? Phase::local : Phase::shared);
      vector_.set_phase(Phase::read_only);
      check();
    }
    if (read_only) {
      vector_.set_phase(Phase::shared);
    }
  }

  void check() {
    for (std::uint64_t index = 0; index < owned; ++index) {
      ASSERT_EQ(vector_[index], model_[index]) << index << " in round " << round_;
    }
    for (std::uint64_t index = 0; index < sums_.size(); ++index) {
      ASSERT_EQ(vector_[owned + index], sums_[index]) << owned + index << " in round " << round_;
    }
  }

  void add_up_sums() {
    sums_.resize(counted + updated);
    for (std::uint32_t rank = 0; rank < setting_.ranks; ++rank) {
      for (const Addition& one : additions(rank, 20)) {
        sums_[one.index] += one.summand;
      }
      for (const Addition& one : additions(rank + setting_.ranks, 30)) {
        sums_[counted + one.index / 2 * 2] += one.summand;
        sums_[counted + one.index / 2 * 2 + 1] += one.summand;
      }
    }
  }

  const Setting& setting_;
  Job& job_;
  SharedVector<std::uint64_t> vector_;
  std::vector<std::uint64_t> model_;
  std::vector<std::uint64_t> before_;
  std::vector<std::uint64_t> sums_;
  std::vector<bool> seen_;  ///< What others, or this rank, wrote in this round.
  std::uint64_t round_ = 0;
};

/// Calls `run(seed)` for as long as TIERMAP_SOAK_SECONDS says.
void for_a_while(const std::function<void(std::uint64_t)>& run) {
  const char* const soak = std::getenv("TIERMAP_SOAK_SECONDS");
  const char* const given = std::getenv("TIERMAP_TEST_SEED");
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(soak != nullptr ? std::atoll(soak) * 1000 : 4000);
  do {
    const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
    std::cout << "seed " << seed << "\n" << std::flush;
    run(seed);
  } while (!testing::Test::HasFailure() && std::chrono::steady_clock::now() < end);
}

TEST(ConsistencyTest, RandomProgramsSeeWhatTheModelAllows) {
  for_a_while([](std::uint64_t seed) {
    const Setting setting = draw_setting(seed);
    const Servers servers(setting.servers);
    RankProcesses processes(setting.ranks, [&](std::uint32_t rank) {
      Job job(setting.job(servers, rank));
      Program(setting, job).run(6);
      job.end();
    });
    processes.expect_success();
  });
}

/// The others either see what the model allows or are told who died; a page that cannot be had any more is a SIGBUS.
TEST(ConsistencyTest, RandomProgramsOfWhichOneIsKilledEndWithItsName) {
  for_a_while([](std::uint64_t seed) {
    const Setting setting = draw_setting(seed);
    const Servers servers(setting.servers);
    std::mt19937_64 random(seed + 1);
    const auto victim = static_cast<std::uint32_t>(random() % setting.ranks);
    // Ranks that are all there: one that has never come is no rank of the job.
    auto* const come = static_cast<std::atomic<std::uint32_t>*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void*>(come), MAP_FAILED);
    RankProcesses processes(setting.ranks, [&](std::uint32_t rank) {
      Job job(setting.job(servers, rank));
      come->fetch_add(1);
      const std::string told = refusal_of([&] { Program(setting, job).run(1 << 30); });
      EXPECT_NE(told.find("rank " + std::to_string(victim) + " at "), std::string::npos) << told;
    });
    for (int turn = 0; turn < 60'000 && come->load() < setting.ranks; ++turn) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::munmap(come, 4096);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 500));
    processes.signal(victim, SIGKILL);
    for (std::uint32_t rank = 0; rank < setting.ranks; ++rank) {
      const int code = processes.wait(rank);
      if (rank != victim) {
        EXPECT_TRUE(code == 0 || code == 128 + SIGBUS) << "rank " << rank << " ends with " << code;
      }
    }
    // And the servers serve the next job.
    run_job(servers, 2, [](Job& job) { job.barrier(); });
  });
}

}  // namespace
}  // namespace tiermap
