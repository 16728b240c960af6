// Shared vectors that are copied to and from other stores, or lie in one of their server's.
#include <filesystem>
#include <fstream>

#include "cluster/flip_in_file.hpp"
#include "shared/rank_processes.hpp"
#include "shared/shared_numbers.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

TEST(SavedVectorTest, ItIsSavedAndLoaded) {
  const TemporaryDirectory directory(".");
  const Servers servers(2);
  const std::string path = std::filesystem::absolute(directory / "saved").string();
  for (int turn = 0; turn < 2; ++turn) {
    run_job(servers, 2, [&](Job& job) {
      auto vector = SharedVector<std::uint32_t>::create(job, "v", 600'000);
      if (turn == 0) {
        for (std::uint64_t index = job.rank(); index < vector.size(); index += 2) {
          vector[index] = static_cast<std::uint32_t>(index);
        }
        vector.save(path);
      } else {
        EXPECT_EQ(vector[1], 0U);
        vector.load(path);
        for (std::uint64_t index = 0; index < vector.size(); ++index) {
          ASSERT_EQ(vector[index], index);
        }
        for (const std::string& refusal : {refusal_of([&] { vector.save("/nowhere/at/all"); }),
                                           refusal_of([&] { vector.load("/nowhere/at/all"); })}) {
          EXPECT_NE(refusal.find("/nowhere/at/all"), std::string::npos) << refusal;
        }
      }
      job.barrier();
      vector.destroy();
      auto other = SharedVector<std::uint32_t>::create(job, "v", 7);
      EXPECT_EQ(other[6], 0U);
      other.close();
    });
  }
}

TEST(SavedVectorTest, WhatCannotBeSavedOrLoadedIsAnErrorForHoweverManyRanks) {
  const TemporaryDirectory directory(".");
  const Servers servers(1);
  std::ofstream(directory / "short") << "less";
  for (const std::uint32_t ranks : {1U, 3U}) {
    run_job(servers, ranks, [&](Job& job) {
      auto vector = SharedVector<std::uint32_t>::create(job, "v", 1000);
      const std::string saving = refusal_of([&] { vector.save("/nowhere/at/all"); });
      EXPECT_TRUE(saving.starts_with("job 'job': rank 0 cannot save vector 'v': /nowhere/at/all ")) << saving;
      EXPECT_EQ(saving.find("have all ranks do the same"), std::string::npos) << saving;
      const std::string loading = refusal_of([&] { vector.load(directory / "short"); });
      EXPECT_TRUE(loading.starts_with("job 'job': rank 0 cannot load vector 'v': store ")) << loading;
      try {
        vector.load("/nowhere/at/all");
        ADD_FAILURE() << "there is nothing to load";
      } catch (const StoreError& error) {
        EXPECT_EQ(error.code().value(), ENOENT);
      }
      job.barrier();
      vector.close();
    });
  }
}

TEST(SavedVectorTest, WhatIsLoadedAndSavedToHasElementsOfItsType) {
  const TemporaryDirectory directory(".");
  const Servers servers(1);
  // As numpy.save() makes it, of 1,000 doubles.
  const std::string url = "npy:" + std::filesystem::absolute(directory / "doubles.npy").string();
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000,), }";
  header.resize(117, ' ');
  std::ofstream(directory / "doubles.npy")
      << std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" + std::string(8000, '\0');
  run_job(servers, 2, [&](Job& job) {
    auto integers = SharedVector<std::int64_t>::create(job, "integers", 1000);
    auto floats = SharedVector<float>::create(job, "floats", 2000);
    auto doubles = SharedVector<double>::create(job, "doubles", 1000);
    const std::string holds = "store '" + url + "' holds elements of type <f8, of 8 bytes, and not ";
    for (const auto& [refusal, expected] :
         {std::pair(refusal_of([&] { integers.load(url); }), holds + "i8: load it into a vector of what it holds"),
          std::pair(refusal_of([&] { floats.load(url); }), holds + "f4: load it into a vector of what it holds"),
          std::pair(refusal_of([&] { integers.save(url); }), holds + "i8: save the vector elsewhere")}) {
      EXPECT_NE(refusal.find(expected), std::string::npos) << refusal;
    }
    doubles[job.rank()] = 1.5;
    doubles.save(url);
    doubles.load(url);
    EXPECT_EQ(doubles[0] + doubles[1], 3);
    job.barrier();
    integers.close();
    floats.close();
    doubles.close();
  });
}

TEST(SavedVectorTest, AfterALoadThatEndsInTheMidstAllRanksSeeTheSame) {
  const TemporaryDirectory directory(".");
  const std::string file = std::filesystem::absolute(directory / "kept").string();
  constexpr std::uint64_t bytes = 16 << 20;
  std::ofstream(file) << std::string(bytes, '\1');
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\nmemory: 64MiB\ndata_sets:\n  - {name: kept, store: "
                                         << file << "}\n";
  const Servers servers(1, {"--config", directory / "node.yaml"});
  const std::string url = "remote://" + servers.addresses + "/kept";
  const SharedNumbers seen;
  run_job(servers, 2, [&](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", bytes / sizeof(std::uint64_t));
    vector.load(url);
    const std::uint64_t loaded = vector[0];
    job.barrier();
    if (job.rank() == 0) {
      vector[0] = 7;
      flip_in_file(file, bytes - 1);
    }
    job.barrier();
    EXPECT_EQ(vector[0], 7U);
    job.barrier();
    EXPECT_NE(refusal_of([&] { vector.load(url); }).find("cannot load vector 'v'"), std::string::npos);
    job.barrier();
    EXPECT_EQ(vector[0], loaded);  // Of what came before the damage.
    seen[job.rank()] = vector[0];
    vector.close();
  });
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(SavedVectorTest, ADataSetOfTheServerStaysWithWhatWasReleased) {
  const TemporaryDirectory directory(".");
  const std::string file = std::filesystem::absolute(directory / "kept").string();
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\ndata_sets:\n  - {name: kept, store: " << file
                                         << ", size: 4MiB}\n";
  Servers servers(1, {"--config", directory / "node.yaml"});
  for (std::uint64_t turn = 0; turn < 2; ++turn) {
    run_job(servers, 2, [&](Job& job) {
      auto vector = SharedVector<std::uint64_t>::open(job, "kept");
      EXPECT_EQ(vector.size(), 524'288U);
      EXPECT_EQ(vector[job.rank()], turn);
      job.barrier();
      vector[job.rank()] = turn + 1;
      EXPECT_NE(refusal_of([&] { vector.destroy(); }).find("tiermap serve drop"), std::string::npos);
      vector.close();
    });
  }
  servers.processes[0]->signal(SIGTERM);
  EXPECT_EQ(servers.processes[0]->wait(), 0);
  std::vector<std::uint64_t> stored(2);
  std::ifstream(file).read(reinterpret_cast<char*>(stored.data()), 16);
  EXPECT_EQ(stored, (std::vector<std::uint64_t>{2, 2}));
}

}  // namespace
}  // namespace tiermap
