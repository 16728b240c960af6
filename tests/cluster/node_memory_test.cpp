// Memory that processes of a node share: without a name, and gone with the last of them.
#include "cluster/job/node_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t bytes = 1 << 20;

/// Runs it in a child, which ends with what it returns.
int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(work());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string refusal(const std::string& address, std::uint64_t size) {
  try {
    NodeMemory::open(address, size);
    return "";
  } catch (const PlatformError& error) {
    return error.what();
  }
}

TEST(NodeMemoryTest, AnotherProcessHasTheSame) {
  const NodeMemory made = NodeMemory::make(bytes);
  ASSERT_EQ(made.bytes().size(), bytes);
  const std::string address = made.address();
  made.bytes()[4096] = std::byte{7};
  EXPECT_EQ(in_child([&] {
              const NodeMemory opened = NodeMemory::open(address, bytes);
              opened.bytes()[4097] = std::byte{8};
              return static_cast<int>(opened.bytes()[4096]);
            }),
            7);
  EXPECT_EQ(made.bytes()[4097], std::byte{8});
}

TEST(NodeMemoryTest, OnceItsFileIsClosedNobodyElseGetsIt) {
  NodeMemory made = NodeMemory::make(bytes);
  const std::string address = made.address();
  EXPECT_EQ(refusal(address, bytes), "");
  made.close_file();
  EXPECT_NE(refusal(address, bytes), "");
  made.bytes()[bytes - 1] = std::byte{1};
}

TEST(NodeMemoryTest, WhatIsSomethingElseIsNotOpened) {
  const NodeMemory made = NodeMemory::make(bytes);
  const NodeMemory other = NodeMemory::make(bytes);
  EXPECT_NE(refusal(made.address(), 2 * bytes).find("another job's"), std::string::npos);
  std::istringstream words(made.address());
  std::string process;
  std::string descriptor;
  words >> process >> descriptor;
  // Its descriptor, and the file of the other one.
  std::istringstream other_words(other.address());
  std::string skipped;
  std::string device;
  std::string inode;
  other_words >> skipped >> skipped >> device >> inode;
  EXPECT_NE(refusal(process + " " + descriptor + " " + device + " " + inode, bytes).find("another job's"),
            std::string::npos);
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_NE(refusal(process + " " + std::to_string(nothing.get()) + " " + device + " " + inode, bytes)
                .find("is not the node's cache"),
            std::string::npos);
  EXPECT_NE(refusal(process + " 100000 " + device + " " + inode, bytes).find("cannot look"), std::string::npos);
  EXPECT_NE(refusal("nonsense", bytes), "");
}

TEST(NodeMemoryTest, AForkedChildDoesNotHaveIt) {
  const NodeMemory made = NodeMemory::make(bytes);
  made.bytes()[0] = std::byte{1};
  EXPECT_EQ(in_child([&] {
              unsigned char present = 0;
              return ::mincore(made.bytes().data(), 4096, &present) == -1 && errno == ENOMEM ? 0 : 1;
            }),
            0);
}

TEST(NodeMemoryTest, NobodyMakesItShorter) {
  const NodeMemory made = NodeMemory::make(bytes);
  std::istringstream words(made.address());
  std::string process;
  int descriptor = -1;
  words >> process >> descriptor;
  EXPECT_EQ(::ftruncate(descriptor, 4096), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(NodeMemoryTest, ANodeIsToldByItsNameAndItsKernel) {
  EXPECT_EQ(node_identity("a"), node_identity("a"));
  EXPECT_NE(node_identity("a"), node_identity("b"));
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  EXPECT_NE(node_identity("a").find(boot), std::string::npos);
}

}  // namespace
}  // namespace tiermap
