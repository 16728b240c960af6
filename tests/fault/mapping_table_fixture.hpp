// A table of a test's own, and processes that have a part in it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "platform/mapping_table.hpp"
#include "platform/page_sizes.hpp"
#include "store/file_descriptor.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {

class MappingTableTest : public ::testing::Test {
 protected:
  std::unique_ptr<MappingTable> join(MappingTable::GiveBack give_back = [](FileIdentity) { return true; }) const {
    return std::make_unique<MappingTable>(std::move(give_back), MappingTable::ShareOut(), path_);
  }

  /// A file that is mapped by the kernel as long as the fixture lives.
  FileIdentity make_mapped_file() {
    const FileDescriptor file(::open((folder_.path() + "/file").c_str(), O_RDWR | O_CREAT, 0600));
    struct stat status = {};
    EXPECT_EQ(::ftruncate(file.get(), kernel_page_bytes), 0);
    EXPECT_EQ(::fstat(file.get(), &status), 0);
    mapped_ = ::mmap(nullptr, kernel_page_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
    EXPECT_NE(mapped_, MAP_FAILED);
    return FileIdentity::of(status);
  }
  ~MappingTableTest() override {
    if (mapped_ != nullptr) {
      ::munmap(mapped_, kernel_page_bytes);
    }
  }

  /// Runs in a process of its own, which stays until it is killed.
  static pid_t start(const std::function<void()>& body) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      body();
      static_cast<void>(::write(ends[1], "x", 1));
      ::pause();
      ::_exit(1);
    }
    char done = 0;
    EXPECT_EQ(::read(ends[0], &done, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
    return child;
  }
  static void kill_and_wait(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  TemporaryDirectory folder_;
  const std::string path_ = folder_.path() + "/table";
  void* mapped_ = nullptr;
  static constexpr FileIdentity unmapped_file_{1, 2};
};

}  // namespace tiermap
