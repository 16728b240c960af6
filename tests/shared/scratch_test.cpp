// Copies of pages, by which changes are told, where they have no room: in memory, and in the scratch folder.
#include <fcntl.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cluster/job/twins.hpp"
#include "shared/rank_processes.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

TEST(ScratchTest, WhatHasNoRoomIsThereAllTheSame) {
  const TemporaryDirectory directory(".");
  const std::string folder = directory / "later";
  Twins twins(8, home_block_bytes, folder);
  Twins::Block bytes{};
  const auto keep = [&](std::uint64_t block) {
    bytes.fill(static_cast<std::byte>(block + 1));
    return twins.keep(block, bytes);
  };
  EXPECT_EQ(keep(0), 0);
  EXPECT_EQ(keep(1), -ENOENT);
  std::filesystem::create_directory(folder);
  EXPECT_EQ(keep(2), 0);
  EXPECT_EQ(twins.memory_bytes(), home_block_bytes);
  for (std::uint64_t block = 0; block < 3; ++block) {
    int error = 0;
    ASSERT_TRUE(twins.find(block, bytes, error)) << block;
    EXPECT_EQ(bytes[4095], static_cast<std::byte>(block + 1));
  }
}

TEST(ScratchTest, AFolderThatIsNotThereIsNamedWhenItIsNeeded) {
  const TemporaryDirectory directory(".");
  const std::string said = directory / "said";
  const Servers servers;
  RankProcesses processes(1, [&](std::uint32_t) {
    Job job(servers.job(0, 1));
    SharedVectorOptions options;
    options.page_size_bytes = 4096;
    options.budget_bytes = 256 << 10;
    options.scratch_folder = "/nowhere/at/all";
    auto vector = SharedVector<int>::create(job, "v", 1 << 20, options);
    ::dup2(::open(said.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), STDERR_FILENO);
    for (int& element : vector) {
      element = 1;
    }
  });
  EXPECT_EQ(processes.wait(0), 128 + SIGBUS);
  std::ifstream file(said);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("vector 'v': copies of its pages have no room in memory, and none in scratch folder "
                      "'/nowhere/at/all' (No such file or directory): choose another scratch_folder"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tiermap
