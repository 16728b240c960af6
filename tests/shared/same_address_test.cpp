// What lies at the same address on every rank: pointers that mean the same on all of them.
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "shared/rank_processes.hpp"
#include "shared/small_pages.hpp"
#include "tiermap/cache.hpp"
#include "tiermap/shared_vector.hpp"
#include "tiermap/store.hpp"

namespace tiermap {
namespace {

SharedVectorOptions at_same_address() {
  SharedVectorOptions options = small_pages();
  options.same_address = true;
  return options;
}

std::uint64_t number_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

/// All ranks have the same.
void expect_agreement(Job& job, const void* address) {
  const std::array<const void*, 1> own{address};
  for (const std::vector<std::byte>& bytes : job.gather(std::as_bytes(std::span(own)))) {
    ASSERT_EQ(bytes.size(), sizeof(address));
    EXPECT_EQ(std::memcmp(bytes.data(), own.data(), sizeof(address)), 0);
  }
}

/// Something of this process alone, so that no two have the same free space.
class Clutter {
 public:
  explicit Clutter(std::uint64_t bytes)
      : bytes_(bytes), data_(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  Clutter(std::uint64_t address, std::uint64_t bytes)
      // NOLINTNEXTLINE(performance-no-int-to-ptr): one that is counted from another.
      : bytes_(bytes),
        data_(::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0)) {}
  Clutter(Clutter&& other) noexcept : bytes_(other.bytes_), data_(std::exchange(other.data_, MAP_FAILED)) {}
  Clutter& operator=(Clutter&&) = delete;
  ~Clutter() {
    if (data_ != MAP_FAILED) {
      ::munmap(data_, bytes_);
    }
  }
  std::uint64_t address() const { return number_of(data_); }

 private:
  std::uint64_t bytes_;
  void* data_;
};

struct Node {
  std::uint64_t value;
  Node* next;
};

TEST(SameAddressTest, AListOfWhichEachRankMakesAPartIsFollowedByAll) {
  const Servers servers(2);
  for (const std::uint32_t ranks : {2U, 4U}) {
    run_job(servers, ranks, [&](Job& job) {
      const Clutter clutter((job.rank() + 1) * (std::uint64_t{100} << 20U));
      constexpr std::uint64_t each = 5000;
      auto nodes = SharedVector<Node>::create(job, "nodes", each * job.ranks(), at_same_address());
      auto heads = SharedVector<Node*>::create(job, "heads", job.ranks(), at_same_address());
      expect_agreement(job, nodes.data());
      expect_agreement(job, heads.data());
      const VectorRange own = nodes.partition();
      for (std::uint64_t index = own.first; index < own.first + own.count; ++index) {
        const bool last = index + 1 == own.first + own.count;
        nodes[index] = {index * 3, last ? nullptr : &nodes[index + 1]};
      }
      heads[job.rank()] = &nodes[own.first];
      job.barrier();
      std::uint64_t index = 0;
      for (Node* head : heads) {
        for (const Node* node = head; node != nullptr; node = node->next) {
          ASSERT_EQ(node->value, 3 * index++);
        }
      }
      EXPECT_EQ(index, nodes.size());
      // What another rank hangs in is found where it says.
      job.barrier();
      if (job.rank() == 1) {
        nodes[own.first].next = heads[0];
      }
      job.barrier();
      EXPECT_EQ(heads[1]->next, &nodes[0]);
      job.barrier();
      nodes.close();
      heads.close();
    });
  }
}

TEST(SameAddressTest, ADataSetOfTheServerIsThereToo) {
  const Servers servers;
  RankProcesses(1, [&](std::uint32_t) {
    open_store("remote://" + servers.addresses + "/kept", OpenMode::create, 1 << 20);
  }).expect_success();
  run_job(servers, 3, [](Job& job) {
    const Clutter clutter((job.rank() + 1) * (std::uint64_t{10} << 20U));
    auto vector = SharedVector<std::uint64_t*>::open(job, "kept", at_same_address());
    expect_agreement(job, vector.data());
    vector.close();
  });
}

TEST(SameAddressTest, ARegionOfARemoteStoreIsWhereAllRanksReservedIt) {
  const Servers servers;
  const std::string url = "remote://" + servers.addresses + "/table";
  constexpr std::uint64_t bytes = 1 << 20;
  RankProcesses(1, [&](std::uint32_t) { open_store(url, OpenMode::create, bytes); }).expect_success();
  run_job(servers, 3, [&](Job& job) {
    const Clutter clutter((job.rank() + 1) * (std::uint64_t{10} << 20U));
    const JobAddresses place = job.reserve_addresses(bytes);
    expect_agreement(job, place.data());
    EXPECT_EQ(place.size(), bytes);
    CacheOptions memory;
    memory.budget_bytes = 4 << 20;
    Cache cache(memory);
    RegionOptions options;
    options.length = bytes;
    options.address = place.data();
    options.replacement = Replacement::reservation;
    {
      const Region region = cache.map(url, options);
      EXPECT_EQ(static_cast<void*>(region.data()), place.data());
      EXPECT_EQ(region.as_span<const std::uint64_t>()[1000], 0U);
    }
    // It stays reserved.
    EXPECT_NE(Clutter(number_of(place.data()), bytes).address(), number_of(place.data()));
    job.barrier();
  });
}

TEST(SameAddressTest, WhereOneRankHasSomethingAlreadyAnotherPlaceIsTaken) {
  constexpr std::uint64_t bytes = std::uint64_t{64} << 20U;
  constexpr std::uint64_t space = std::uint64_t{32} << 30U;
  const std::uint64_t top = Clutter(space).address();  // Forked ranks have the same.
  std::vector<Clutter> above;                          // And in what earlier tests left free there, nothing more.
  for (std::uint64_t hole = space / 2; hole >= bytes / 32; hole /= 2) {
    above.emplace_back(hole);
    while (above.back().address() >= top + space) {
      above.emplace_back(hole);
    }
    above.pop_back();
  }
  const Servers servers;
  for (const std::uint64_t places : {std::uint64_t{8}, std::uint64_t{2000}}) {
    RankProcesses processes(2, [&](std::uint32_t rank) {
      // The first rank's kernel begins below its clutter, where the other has something in each of so many places.
      std::vector<Clutter> clutter;
      if (rank == 0) {
        clutter.emplace_back(top - bytes / 2, space);
      }
      for (std::uint64_t place = 0; rank == 1 && place < places; ++place) {
        clutter.emplace_back(top - (place + 2) * (bytes / 2), 4096);
      }
      Job job(servers.job(rank, 2));
      if (places == 8) {
        const JobAddresses place = job.reserve_addresses(bytes);
        expect_agreement(job, place.data());
        EXPECT_LE(number_of(place.data()) + bytes, top - 4 * bytes);
      } else {
        EXPECT_NE(refusal_of([&] { job.reserve_addresses(bytes); }).find("is free on all 2 ranks"), std::string::npos);
        SharedVectorOptions options = at_same_address();
        for (int turn = 0; turn < 2; ++turn) {
          EXPECT_NE(refusal_of([&] { SharedVector<char>::create(job, "v", bytes, options); }).find("is free on all"),
                    std::string::npos);
        }
        // What failed has left nothing: the name is free, for something else.
        options.same_address = false;
        auto vector = SharedVector<char>::create(job, "v", 5000, options);
        EXPECT_EQ(vector.size(), 5000U);
        vector.close();
      }
      job.end();
    });
    processes.expect_success();
  }
}

/// Small pieces, which kernels put between other things: those are other ones in each process.
TEST(SameAddressTest, HolesThatOnlyOneRankHasAreNotTriedForEver) {
  const Servers servers;
  run_job(servers, 4, [](Job& job) {
    std::vector<Clutter> clutter;
    for (std::uint64_t index = 0; index < 400; ++index) {
      clutter.emplace_back((1 + (index * 7 + job.rank() * 5) % 13) * (std::uint64_t{1} << 20U));
    }
    for (std::uint64_t index = job.rank(); index < clutter.size(); index += 3 + job.rank()) {
      const Clutter hole = std::move(clutter[index]);
    }
    std::vector<JobAddresses> places;
    for (std::uint64_t turn = 0; turn < 40; ++turn) {
      places.push_back(job.reserve_addresses(std::uint64_t{4096} << turn % 8));
      expect_agreement(job, places.back().data());
    }
  });
}

TEST(SameAddressTest, WhatCannotBeIsAnErrorOnEveryRank) {
  const Servers servers;
  run_job(servers, 3, [](Job& job) {
    EXPECT_NE(refusal_of([&] { SharedVector<int*>::create(job, "v", 10); }).find("set same_address"),
              std::string::npos);
    SharedVectorOptions options = at_same_address();
    options.same_address = job.rank() != 2;
    EXPECT_NE(refusal_of([&] { SharedVector<int>::create(job, "v", 10, options); }).find("but rank 2 makes vector"),
              std::string::npos);
    EXPECT_NE(refusal_of([&] { job.reserve_addresses(0); }), "");
    EXPECT_NE(refusal_of([&] { job.reserve_addresses(4096 + job.rank() / 2); }).find("but rank 2 reserves 8192 bytes"),
              std::string::npos);
  });
}

TEST(SameAddressTest, OneRankWithoutRoomIsAnErrorOnEveryRank) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers take more address space themselves than the test permits";
#endif
  const Servers servers;
  run_job(servers, 3, [](Job& job) {
    if (job.rank() == 1) {
      rlimit limit{};
      ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
      limit.rlim_cur = std::uint64_t{8} << 30U;
      ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    }
    EXPECT_NE(refusal_of([&] { job.reserve_addresses(std::uint64_t{1} << 40U); }).find("rank 1: cannot reserve"),
              std::string::npos);
    const JobAddresses place = job.reserve_addresses(1 << 20);
    expect_agreement(job, place.data());
  });
}

TEST(SameAddressTest, ARankThatDiesMeanwhileIsNamed) {
  const Servers servers;
  RankProcesses processes(3, [&](std::uint32_t rank) {
    Job job(servers.job(rank, 3));
    if (rank == 1) {
      job.gather({});
      ::raise(SIGKILL);
    }
    const std::string told = refusal_of([&] {
      job.gather({});
      job.reserve_addresses(1 << 20);
    });
    EXPECT_NE(told.find("rank 1 at "), std::string::npos) << told;
  });
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(2), 0);
}

}  // namespace
}  // namespace tiermap
