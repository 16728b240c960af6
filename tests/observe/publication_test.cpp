// A publication appears with its cache, shows what is counted, and is gone with it; what dead processes and others
// leave behind harms nobody.
#include "observe/publication.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "observe/publication_layout.hpp"
#include "platform/process_start.hpp"

namespace tiermap {
namespace {

namespace fs = std::filesystem;

/// The cache of that name among those seen, in this process.
std::optional<ObservedCache> find(const std::string& name, const std::string& folder = "/dev/shm") {
  for (ObservedCache& cache : observe_caches(folder)) {
    if (cache.name == name) {
      return cache;
    }
  }
  return std::nullopt;
}

TEST(Publication, ShowsTheCacheAndItsRegionsWhileTheyLive) {
  std::string path;
  {
    Publication publication("lifecycle", "lru", "notify", true);
    path = publication.path();
    ASSERT_FALSE(path.empty());
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);

    publication.cache_counters().add(Counter::fills, 7);
    publication.cache_counters().budget_bytes = 1 << 20;
    PublishedRegion* region = publication.add_region("file:///a", 1000, 4096);
    ASSERT_NE(region, nullptr);
    region->counters.add(Counter::rescues, 3);

    const auto cache = find("lifecycle");
    ASSERT_TRUE(cache.has_value());
    EXPECT_EQ(cache->process, ::getpid());
    EXPECT_EQ(cache->policy, "lru");
    EXPECT_EQ(cache->fault_mode, "notify");
    EXPECT_EQ(cache->statistics[Counter::fills], 7U);
    EXPECT_EQ(cache->statistics.budget_bytes, 1U << 20);
    ASSERT_EQ(cache->regions.size(), 1U);
    EXPECT_EQ(cache->regions[0].name, "file:///a");
    EXPECT_EQ(cache->regions[0].length_bytes, 1000U);
    EXPECT_EQ(cache->regions[0].page_size_bytes, 4096U);
    EXPECT_EQ(cache->regions[0].statistics[Counter::rescues], 3U);

    publication.remove_region(region);
    EXPECT_TRUE(find("lifecycle")->regions.empty());
    EXPECT_EQ(publication.add_region("file:///b", 1, 4096), region);
    EXPECT_EQ(find("lifecycle")->regions.at(0).statistics[Counter::rescues], 0U);
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(find("lifecycle").has_value());
}

TEST(Publication, OffMeansInvisibleAndOtherwiseTheSame) {
  Publication publication("private", "lru", "notify", false);
  EXPECT_TRUE(publication.path().empty());
  publication.cache_counters().add(Counter::fills);
  EXPECT_EQ(publication.cache_counters().snapshot()[Counter::fills], 1U);
  PublishedRegion* region = publication.add_region("memory", 1, 4096);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->counters.snapshot()[Counter::fills], 0U);
  EXPECT_FALSE(find("private").has_value());
}

// Which would end the program by SIGXFSZ.
TEST(Publication, ALimitOfFileSizesIsNotMet) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little = {.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  {
    Publication publication("limited", "lru", "notify", true);
    EXPECT_TRUE(publication.path().empty());
    publication.cache_counters().add(Counter::fills);
    EXPECT_NE(publication.add_region("memory", 1, 4096), nullptr);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST(Publication, SeveralCachesInOneProcess) {
  const Publication first("several-1", "lru", "notify", true);
  const Publication second("several-2", "lru", "notify", true);
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(find("several-1").has_value());
  EXPECT_TRUE(find("several-2").has_value());
}

TEST(Publication, RegionsBeyondTheSlotsGetNone) {
  Publication publication("many", "lru", "notify", true);
  std::vector<PublishedRegion*> regions;
  for (std::uint32_t slot = 0; slot < Publication::max_regions; ++slot) {
    regions.push_back(publication.add_region("r", 1, 4096));
    ASSERT_NE(regions.back(), nullptr);
  }
  EXPECT_EQ(publication.add_region("one more", 1, 4096), nullptr);
  publication.remove_region(nullptr);
  EXPECT_EQ(find("many")->regions.size(), std::size_t{Publication::max_regions});
  publication.remove_region(regions[5]);
  EXPECT_EQ(publication.add_region("again", 1, 4096), regions[5]);
}

TEST(Publication, LongNamesAreCut) {
  const std::string name(200, 'n');
  Publication publication(name + "\n", "lru", "notify", true);
  ASSERT_NE(publication.add_region("file:///" + std::string(200, 'x') + "/the-end", 1, 4096), nullptr);
  ASSERT_NE(publication.add_region("line\nbreak\x1b[2J", 1, 4096), nullptr);
  const auto cache = find(std::string(63, 'n'));
  ASSERT_TRUE(cache.has_value());
  EXPECT_TRUE(cache->regions.at(0).name.ends_with("/the-end"));
  EXPECT_EQ(cache->regions.at(0).name.size(), 107U);
  EXPECT_EQ(cache->regions.at(1).name, "line?break?[2J");
}

TEST(Publication, AForkedChildLeavesItsParentsFileAlone) {
  auto publication = std::make_unique<Publication>("forked", "lru", "notify", true);
  const pid_t child = ::fork();
  if (child == 0) {
    publication.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(fs::exists(publication->path()));
  EXPECT_TRUE(find("forked").has_value());
}

TEST(Publication, WhatAKilledProcessLeftIsRemoved) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Publication publication("killed", "lru", "notify", true);
    const std::string path = publication.path();
    if (::write(ready[1], path.data(), path.size()) < 0) {
      ::_exit(1);
    }
    ::pause();
  }
  char buffer[256];
  const ssize_t length = ::read(ready[0], buffer, sizeof(buffer));
  ASSERT_GT(length, 0);
  const std::string path(buffer, static_cast<std::size_t>(length));
  const auto cache = find("killed");
  ASSERT_TRUE(cache.has_value());
  EXPECT_EQ(cache->process, child);
  EXPECT_TRUE(fs::exists(path));
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  // From here on any other program that looks for caches removes it, too.
  EXPECT_FALSE(find("killed").has_value());
  EXPECT_FALSE(fs::exists(path));
  ::close(ready[0]);
  ::close(ready[1]);
}

/// A folder of files that look like publications.
class Garbage : public testing::Test {
 protected:
  Garbage() {
    std::string path = (fs::temp_directory_path() / "tiermap-observe-XXXXXX").string();
    folder_ = ::mkdtemp(path.data());
  }
  ~Garbage() override { fs::remove_all(folder_); }

  static std::string name_of(pid_t process, std::uint32_t instance) {
    return format_publication_name({::geteuid(), process, instance});
  }
  fs::path write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  /// The bytes of a real publication of this process with one region.
  static std::string real_bytes(std::uint32_t& instance) {
    Publication publication("real", "lru", "notify", true);
    publication.add_region("file:///a", 1, 4096);
    instance = parse_publication_name(fs::path(publication.path()).filename().string())->instance;
    std::ifstream file(publication.path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

TEST_F(Garbage, ARealFileIsSeenHere) {
  std::uint32_t instance = 0;
  const std::string bytes = real_bytes(instance);
  write(name_of(::getpid(), instance), bytes);
  ASSERT_TRUE(find("real", folder_).has_value());
  EXPECT_EQ(find("real", folder_)->regions.size(), 1U);
}

TEST_F(Garbage, TruncatedFilesArePassedOver) {
  std::uint32_t instance = 0;
  const std::string bytes = real_bytes(instance);
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{8}, sizeof(PublishedHeader) - 1,
                                   sizeof(PublishedHeader), offsetof(PublishedCache, regions) - 1}) {
    write(name_of(::getpid(), instance), bytes.substr(0, length));
    EXPECT_TRUE(observe_caches(folder_).empty()) << length;
  }
  write(name_of(::getpid(), instance), bytes.substr(0, offsetof(PublishedCache, regions) + 10));
  ASSERT_EQ(observe_caches(folder_).size(), 1U);
  EXPECT_TRUE(observe_caches(folder_)[0].regions.empty());
}

TEST_F(Garbage, OtherVersionsAndSizesArePassedOver) {
  std::uint32_t instance = 0;
  const std::string bytes = real_bytes(instance);
  for (const std::size_t offset : {offsetof(PublishedHeader, magic), offsetof(PublishedHeader, version),
                                   offsetof(PublishedHeader, counters), offsetof(PublishedHeader, stages),
                                   offsetof(PublishedHeader, max_regions), offsetof(PublishedHeader, file_bytes),
                                   offsetof(PublishedHeader, process), offsetof(PublishedHeader, instance)}) {
    std::string changed = bytes;
    ++changed[offset];
    const fs::path path = write(name_of(::getpid(), instance), changed);
    EXPECT_TRUE(observe_caches(folder_).empty()) << offset;
    EXPECT_TRUE(fs::exists(path));
  }
}

TEST_F(Garbage, RandomBytesHarmNobody) {
  std::uint32_t instance = 0;
  const std::string bytes = real_bytes(instance);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string changed = bytes;
    const std::size_t kept = round % 2 == 0 ? offsetof(PublishedHeader, name) : 0;
    for (int change = 0; change < 2000; ++change) {
      const std::size_t place = kept + random() % (offsetof(PublishedCache, regions) + 4096 - kept);
      changed[place] = static_cast<char>(random());
    }
    write(name_of(::getpid(), instance), changed);
    EXPECT_LE(observe_caches(folder_).size(), 1U);
  }
}

TEST_F(Garbage, AProcessNumberUsedAgainIsNotTheSameProcess) {
  std::uint32_t instance = 0;
  std::string bytes = real_bytes(instance);
  ++bytes[offsetof(PublishedHeader, process_start)];
  const fs::path path = write(name_of(::getpid(), instance), bytes);
  EXPECT_TRUE(observe_caches(folder_).empty());
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(Garbage, FilesOfDeadProcessesGoUnlessLocked) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const fs::path dead = write(name_of(child, 0), "garbage");
  const fs::path locked = write(name_of(child, 1), "garbage");
  const int descriptor = ::open(locked.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(descriptor, LOCK_SH), 0);
  EXPECT_TRUE(observe_caches(folder_).empty());
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(locked));
  ::close(descriptor);
}

TEST_F(Garbage, OtherFilesAreLeftAlone) {
  const fs::path other_user = write(format_publication_name({::geteuid() + 1, 1, 0}), "x");
  for (const char* name : {"tiermap.", "tiermap.0", "tiermap.0.1", "tiermap.0.1.2.3", "tiermap.0.1.", "tiermap.x.1.2",
                           "tiermap.0.-1.2", "tiermap.0.0.2", "tiermap.0.99999999999.2", "other"}) {
    EXPECT_FALSE(parse_publication_name(name).has_value()) << name;
    write(name, "x");
  }
  const std::string fifo = (folder_ / name_of(::getpid(), 5)).string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), S_IRUSR | S_IWUSR), 0);
  fs::create_directory(folder_ / name_of(::getpid(), 6));
  fs::create_symlink("/etc/passwd", folder_ / name_of(::getpid(), 7));
  EXPECT_TRUE(observe_caches(folder_).empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 14);
  EXPECT_TRUE(fs::exists(other_user));
}

TEST_F(Garbage, NoFolderMeansNoCaches) {
  EXPECT_TRUE(observe_caches((folder_ / "none").string()).empty());
}

TEST(ProcessStart, IsKnownOfTheLivingOnly) {
  EXPECT_GT(process_start_time(::getpid()).value_or(0), 0U);
  EXPECT_EQ(process_start_time(::getpid()), process_start_time(::getpid()));
  EXPECT_FALSE(process_start_time(0x3fffffff).has_value());
}

}  // namespace
}  // namespace tiermap
