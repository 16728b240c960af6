// Which rank of how many a process is, as the environment says; and what who did not mean to start ranks is told.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "shared/rank_processes.hpp"

namespace tiermap {
namespace {

TEST(LaunchedRankTest, RanksComeFromTheEnvironmentOfWhatStartedThem) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    ::setenv("PMI_RANK", std::to_string(rank).c_str(), 1);
    ::setenv("PMI_SIZE", "2", 1);
    ::setenv("TIERMAP_SERVERS", servers.addresses.c_str(), 1);
    Job job;
    EXPECT_EQ(job.rank(), rank);
    EXPECT_EQ(job.ranks(), 2U);
    job.end();
    ::setenv("TIERMAP_RANK", "x", 1);
    EXPECT_EQ(refusal_of([&] { Job wrong; }), "TIERMAP_RANK is 'x', and no number: set it to one from 0 on");
    ::setenv("TIERMAP_RANK", "2", 1);
    ::setenv("TIERMAP_RANKS", "2", 1);
    EXPECT_EQ(refusal_of([&] { Job wrong; }), "rank 2 of 2 is none: ranks are counted from 0");
    ::unsetenv("TIERMAP_SERVERS");
    ::setenv("TIERMAP_RANK", "1", 1);
    EXPECT_NE(refusal_of([&] { Job wrong; }).find("a job needs a memory server"), std::string::npos);
  });
  processes.expect_success();
}

TEST(LaunchedRankTest, WithoutAServerARankIsToldWhatMadeItOne) {
  RankProcesses processes(1, [](std::uint32_t) {
    const std::string needed =
        "a job needs a memory server: start one with `tiermap serve`, and name it in TIERMAP_SERVERS";
    for (const char* name : {"TIERMAP_SERVERS", "TIERMAP_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
      ::unsetenv(name);
    }
    EXPECT_EQ(refusal_of([&] { Job job; }), needed);
    ::setenv("SLURM_PROCID", "0", 1);  // As Slurm tells the script itself.
    ::unsetenv("SLURM_NTASKS");
    EXPECT_EQ(
        refusal_of([&] { Job job; }),
        "SLURM_PROCID makes this process a rank, and SLURM_NTASKS, which says of how many, is not set: set it, or "
        "start this process alone with TIERMAP_RANK=0 TIERMAP_RANKS=1");
    ::setenv("SLURM_NTASKS", "8", 1);
    const std::string by_slurm = needed +
                                 " (SLURM_PROCID and SLURM_NTASKS make this process rank 0 of 8: in a batch script "
                                 "start all of them with `srun`, or this one alone with TIERMAP_RANK=0 "
                                 "TIERMAP_RANKS=1)";
    EXPECT_EQ(refusal_of([&] { Job job; }), by_slurm);
    JobOptions options;
    options.ranks = 8;
    options.rank = 0;  // As the applications do, which have asked the environment.
    EXPECT_EQ(refusal_of([&] { const Job job(options); }), by_slurm);
    options.rank = 1;  // As nothing but the program says.
    EXPECT_EQ(refusal_of([&] { const Job job(options); }), needed);
    ::setenv("PMI_RANK", "3", 1);
    ::setenv("PMI_SIZE", "4", 1);
    EXPECT_EQ(refusal_of([&] { Job job; }),
              needed +
                  " (PMI_RANK and PMI_SIZE make this process rank 3 of 4: start it alone with TIERMAP_RANK=0 "
                  "TIERMAP_RANKS=1)");
    ::setenv("TIERMAP_RANK", "0", 1);
    ::setenv("TIERMAP_RANKS", "1", 1);
    EXPECT_EQ(refusal_of([&] { Job job; }), needed);
  });
  processes.expect_success();
}

}  // namespace
}  // namespace tiermap
