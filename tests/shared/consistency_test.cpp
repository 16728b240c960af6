// A consistency checker: several ranks run a random program each, of writes, transactions, streams, locks, updates and
// what all read together, between barriers, and phases in which nobody writes, while the vector moves from server to
// server. Every rank can compute what any rank
// does in any round, so each knows what may be seen when.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <random>

#include "shared/rank_processes.hpp"
#include "shared/shared_numbers.hpp"
#include "store/random_rounds.hpp"
#include "store/temporary_directory.hpp"
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
  JobOptions tree;         ///< What of it says how ranks read together, and what those of a node keep for each other.
  std::uint32_t lost = 0;  ///< So many ranks are killed, and the others go on. 0: the job does not.

  JobOptions job(const Servers& of, std::uint32_t rank) const {
    JobOptions job = of.job_on_nodes(rank, ranks, nodes);
    job.tree_degree = tree.tree_degree;
    job.relay_bytes = tree.relay_bytes;
    job.node_cache_bytes = tree.node_cache_bytes;
    job.go_on_without_lost_ranks = lost > 0;
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
  setting.options.placement = random() % 2 == 0 ? HomePlacement::striped : HomePlacement::by_partition;
  setting.nodes = static_cast<std::uint32_t>(1 + random() % setting.ranks);
  setting.tree.tree_degree = static_cast<std::uint32_t>(1 + random() % 3);
  setting.tree.relay_bytes = (std::uint64_t{1} << (12 + random() % 8)) - 4096;
  // Nothing, less than the vector, or room for all of it.
  setting.tree.node_cache_bytes = random() % 4 == 0 ? 0 : std::uint64_t{64 << 10} << random() % 5;
  return setting;
}

/// Three or more ranks, of which two or more are left.
Setting draw_losing_setting(std::uint64_t seed) {
  Setting setting = draw_setting(seed);
  std::mt19937_64 random(seed + 2);
  setting.ranks = static_cast<std::uint32_t>(3 + random() % 2);
  setting.lost = static_cast<std::uint32_t>(1 + random() % (setting.ranks - 2));
  setting.options.same_address = false;
  setting.tree.node_cache_bytes = 0;
  setting.nodes = 1;
  return setting;
}

/// How far each rank has come, which the others look at when it is lost. Of rounds, and things done in one of them.
class Progress {
 public:
  enum Kind : std::uint32_t { releases, lockings, updates };
  void note(std::uint32_t rank, Kind kind, std::uint64_t round, std::uint64_t done) const {
    numbers_[rank * 3 + kind] = round << 16U | done;
  }
  std::uint64_t done(std::uint32_t rank, Kind kind, std::uint64_t round) const {
    const std::uint64_t number = numbers_[rank * 3 + kind];
    return number >> 16U == round ? number & 0xFFFFU : 0;
  }

 private:
  SharedNumbers numbers_;
};

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

/// Rounds of one rank's program.
class Program {
 public:
  Program(const Setting& setting, Job& job, const Progress& progress)
      : setting_(setting),
        job_(job),
        progress_(progress),
        vector_(SharedVector<std::uint64_t>::create(job, "v", elements, setting.options)),
        model_(owned),
        before_(owned) {}

  /// So many, of which as many at least are without those that are to be lost.
  void run(std::uint64_t rounds, std::uint64_t without = 0) {
    for (round_ = 1; round_ <= rounds || without > 0; ++round_) {
      without -= without > 0 && job_.lost_ranks().size() == setting_.lost ? 1U : 0U;
      gone_ = job_.lost_ranks();
      play();
      job_.barrier();
      add_up_sums();
      settle_what_was_lost();
      check_somehow(mix(setting_.seed + round_ * 3));
      expect_all_see_the_same();
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

  static bool is_among(const std::vector<std::uint32_t>& ranks, std::uint32_t rank) {
    return std::ranges::find(ranks, rank) != ranks.end();
  }
  bool plays(std::uint32_t rank) const { return rank < setting_.ranks && !is_among(gone_, rank); }

  void play() {
    before_ = model_;
    for (std::uint64_t index = 0; index < owned; ++index) {
      if (plays(owner(index))) {
        model_[index] = value(index);
      }
    }
    seen_.assign(owned, false);
    std::mt19937_64 random = random_of(job_.rank());
    std::unique_ptr<SharedTogether<std::uint64_t>> together;
    if (setting_.lost == 0 &&
        mix(setting_.seed + round_) % 2 == 0) {  // By all, or by none; what is not read so is written meanwhile.
      const std::uint64_t first = mix(round_) % owned;
      const VectorRange range{first, 1 + mix(round_ + 1) % (owned - first)};
      together.reset(new SharedTogether<std::uint64_t>(vector_.read_together(range)));
      look_together(*together, first, random() % 3);
    }
    std::vector<int> steps{0, 1, 2, 3};
    std::shuffle(steps.begin(), steps.end(), random);
    for (const int step : steps) {
      if (step == steps[2] && setting_.lost == 0 && mix(setting_.seed + round_ * 7) % 2 == 0) {  // By all, or none.
        together.reset();
        vector_.place_by_score();
      }
      switch (step) {
        case 0:
          write_owned(random);
          if (setting_.lost > 0) {
            vector_.release();
            progress_.note(job_.rank(), Progress::releases, round_, 1);
          }
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
    std::uint64_t done = 0;
    for (const Addition& one : additions(job_.rank(), 20)) {
      JobLock lock = job_.lock("lock " + std::to_string(one.index % locks));
      vector_[owned + one.index] += one.summand;
      lock.unlock();
      progress_.note(job_.rank(), Progress::lockings, round_, ++done);
    }
  }

  void add_by_updates() {
    std::uint64_t done = 0;
    for (const Addition& one : additions(job_.rank() + setting_.ranks, 30)) {
      const std::uint64_t index = owned + counted + one.index / 2 * 2;
      vector_.update({index, 2}, [&](std::span<std::uint64_t> pair) {
        ASSERT_EQ(pair[0], pair[1]);
        pair[0] += one.summand;
        pair[1] += one.summand;
      });
      progress_.note(job_.rank(), Progress::updates, round_, ++done);
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
    const bool read_only = how % 2 == 0;
    if (read_only) {
      vector_.set_phase(Phase::read_only);
    }
    if (how / 2 % 3 == 0 && setting_.lost == 0) {
      const auto together = vector_.read_together({0, elements});
      check();
    } else {
      check();
    }
    if (setting_.lost == 0 && how / 24 % 3 == 0) {
      vector_.place_by_score();
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

  /// Of those that were lost in this round, what they had done; what they were about to do may be there, or not.
  void add_up_sums() {
    sums_.resize(counted + updated);
    possible_.clear();
    for (std::uint32_t rank = 0; rank < setting_.ranks; ++rank) {
      if (!plays(rank)) {
        continue;
      }
      const bool lost = is_among(job_.lost_ranks(), rank);
      const auto add = [&](const std::vector<Addition>& all, Progress::Kind kind, auto place) {
        const std::uint64_t done = lost ? progress_.done(rank, kind, round_) : all.size();
        for (std::uint64_t at = 0; at < all.size() && at <= done; ++at) {
          for (const std::uint64_t index : place(all[at].index)) {
            (at < done ? sums_[index] : possible_[index].emplace_back()) += all[at].summand;
          }
        }
      };
      add(additions(rank, 20), Progress::lockings, [](std::uint64_t index) { return std::vector{index}; });
      add(additions(rank + setting_.ranks, 30), Progress::updates,
          [](std::uint64_t index) { return std::vector{counted + index / 2 * 2, counted + index / 2 * 2 + 1}; });
    }
  }

  /// What is there of what was lost stays so.
  void settle_what_was_lost() {
    const std::vector<std::uint32_t> lost = job_.lost_ranks();
    for (const auto& [index, summands] : possible_) {
      std::vector<std::uint64_t> sums{sums_[index]};
      for (const std::uint64_t summand : summands) {
        const std::size_t before = sums.size();
        for (std::size_t at = 0; at < before; ++at) {
          sums.push_back(sums[at] + summand);
        }
      }
      sums_[index] = vector_[owned + index];
      ASSERT_NE(std::ranges::find(sums, sums_[index]), sums.end()) << owned + index << " in round " << round_;
    }
    for (std::uint64_t index = 0; index < owned; ++index) {
      const std::uint32_t rank = owner(index);
      if (plays(rank) && is_among(lost, rank) && progress_.done(rank, Progress::releases, round_) == 0) {
        ASSERT_TRUE(vector_[index] == before_[index] || vector_[index] == model_[index]) << index;
        model_[index] = vector_[index];
      }
    }
    for (std::uint64_t index = 0; index < updated; index += 2) {
      ASSERT_EQ(sums_[counted + index], sums_[counted + index + 1]);
    }
  }

  void expect_all_see_the_same() {
    if (setting_.lost == 0) {
      return;
    }
    std::uint64_t digest = 0;
    for (const std::uint64_t element : vector_.span()) {
      digest = mix(digest ^ element);
    }
    for (const auto& other : job_.gather(std::as_bytes(std::span(&digest, 1)))) {
      ASSERT_TRUE(other.empty() || std::memcmp(other.data(), &digest, sizeof(digest)) == 0) << "in round " << round_;
    }
  }

  const Setting& setting_;
  Job& job_;
  const Progress& progress_;
  SharedVector<std::uint64_t> vector_;
  std::vector<std::uint64_t> model_;
  std::vector<std::uint64_t> before_;
  std::vector<std::uint64_t> sums_;
  /// By index, what a rank that was lost may have added.
  std::map<std::uint64_t, std::vector<std::uint64_t>> possible_;
  std::vector<std::uint32_t> gone_;  ///< Lost before this round.
  std::vector<bool> seen_;           ///< What others, or this rank, wrote in this round.
  std::uint64_t round_ = 0;
};

/// Calls `run(seed)` for as long as TIERMAP_SOAK_SECONDS says, or for so long that `make test`, which does it with
/// AddressSanitizer and without, does it for a minute in all.
void for_a_while(const std::function<void(std::uint64_t)>& run) {
  const char* const soak = std::getenv("TIERMAP_SOAK_SECONDS");
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(soak != nullptr ? std::atoll(soak) * 1000 : 10'000);
  do {
    const std::uint64_t seed = test_seed();
    std::cout << "seed " << seed << "\n" << std::flush;
    run(seed);
  } while (!testing::Test::HasFailure() && std::chrono::steady_clock::now() < end);
}

TEST(ConsistencyTest, RandomProgramsSeeWhatTheModelAllows) {
  for_a_while([](std::uint64_t seed) {
    const Setting setting = draw_setting(seed);
    const Servers servers(setting.servers);
    const Progress progress;
    RankProcesses processes(setting.ranks, [&](std::uint32_t rank) {
      Job job(setting.job(servers, rank));
      Program(setting, job, progress).run(6);
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
    const Progress progress;
    const SharedNumbers come;  // Ranks that are all there: one that has never come is no rank of the job.
    RankProcesses processes(setting.ranks, [&](std::uint32_t rank) {
      Job job(setting.job(servers, rank));
      come[0].fetch_add(1);
      const std::string told = refusal_of([&] { Program(setting, job, progress).run(1 << 30); });
      EXPECT_NE(told.find("rank " + std::to_string(victim) + " at "), std::string::npos) << told;
    });
    ASSERT_TRUE(come.reaches(0, setting.ranks));
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

/// Those who are left see what the model allows, to the end: what a lost rank had released, of what it had not each
/// element as it was or as it was written, all of them the same, and nothing later.
TEST(ConsistencyTest, RandomProgramsGoOnWithoutThoseThatAreKilled) {
  for_a_while([](std::uint64_t seed) {
    const Setting setting = draw_losing_setting(seed);
    std::mt19937_64 random(seed + 1);
    const TemporaryDirectory directory(".");
    const std::string place =
        random() % 2 == 0 ? "memory: 64MiB" : "directory: " + std::string(directory.path()) + "\ndirectory_size: 64MiB";
    std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\n" << place << "\n";
    const Servers servers(setting.servers, {"--config", directory / "node.yaml"});
    std::vector<std::uint32_t> victims(setting.ranks);
    std::iota(victims.begin(), victims.end(), 0);
    std::shuffle(victims.begin(), victims.end(), random);
    victims.resize(setting.lost);
    const SharedNumbers come;
    const Progress progress;
    RankProcesses processes(setting.ranks, [&](std::uint32_t rank) {
      Job job(setting.job(servers, rank));
      come[0].fetch_add(1);
      Program(setting, job, progress).run(3, 2);
      job.end();
    });
    ASSERT_TRUE(come.reaches(0, setting.ranks));
    for (const std::uint32_t victim : victims) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 400));
      processes.signal(victim, SIGKILL);
    }
    for (std::uint32_t rank = 0; rank < setting.ranks; ++rank) {
      EXPECT_EQ(processes.wait(rank), std::ranges::find(victims, rank) == victims.end() ? 0 : 128 + SIGKILL) << rank;
    }
    run_job(servers, 2, [](Job& job) { job.barrier(); });
  });
}

}  // namespace
}  // namespace tiermap
