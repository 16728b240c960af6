#include "cluster/job/node_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "config/size.hpp"
#include "platform/drop_pages.hpp"
#include "platform/page_sizes.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* memory_name = "tiermap-node-cache";
/// What the kernel says is open, of such a file.
constexpr std::string_view link_text = "/memfd:tiermap-node-cache (deleted)";

[[noreturn]] void refuse_memory(int error_number, const std::string& what) {
  throw PlatformError(error_number, what + ": " + error_text(error_number));
}

/// Where a process has it open, and which file that is.
struct NodeMemoryAddress {
  pid_t process = 0;
  int descriptor = -1;
  dev_t device = 0;
  ino_t inode = 0;
};

}  // namespace

std::string node_identity(const std::string& host) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat processes{};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &processes) != 0) {
    refuse_memory(errno != 0 ? errno : ENOENT, "/proc does not say which ranks are on one node");
  }
  return host + " " + boot + " " + std::to_string(processes.st_ino) + " " + std::to_string(::geteuid());
}

// Inaccessible at first: after mlockall(MCL_FUTURE) the kernel would give memory to all of it.
NodeMemory::NodeMemory(FileDescriptor file, std::uint64_t bytes) : file_(std::move(file)) {
  mapped_ = AddressRange::reserve(round_up(bytes, kernel_page_bytes), kernel_page_bytes, PROT_NONE);
  if (::mmap(mapped_.data(), mapped_.size(), PROT_NONE, MAP_SHARED | MAP_FIXED, file_.get(), 0) == MAP_FAILED) {
    refuse_memory(errno, "no address space for the node's cache of " + format_size(bytes));
  }
  unlock_pages(mapped_.data(), mapped_.size());
  if (::madvise(mapped_.data(), mapped_.size(), MADV_DONTFORK) != 0 ||
      ::mprotect(mapped_.data(), mapped_.size(), PROT_READ | PROT_WRITE) != 0) {
    refuse_memory(errno, "no address space for the node's cache of " + format_size(bytes));
  }
}

NodeMemory NodeMemory::make(std::uint64_t bytes) {
  FileDescriptor file(::memfd_create(memory_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(round_up(bytes, kernel_page_bytes))) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    refuse_memory(errno, "no memory for the node's cache of " + format_size(bytes));
  }
  return {std::move(file), bytes};
}

std::string NodeMemory::address() const {
  struct stat status{};
  if (::fstat(file_.get(), &status) != 0) {
    refuse_memory(errno, "the node's cache");
  }
  std::ostringstream text;
  text << ::getpid() << ' ' << file_.get() << ' ' << status.st_dev << ' ' << status.st_ino;
  return text.str();
}

// The link is read before anything is opened: a process of this number may be another one, seen from here, and what it
// has open anything.
NodeMemory NodeMemory::open(const std::string& address, std::uint64_t bytes) {
  NodeMemoryAddress there;
  std::istringstream(address) >> there.process >> there.descriptor >> there.device >> there.inode;
  const std::string path = "/proc/" + std::to_string(there.process) + "/fd/" + std::to_string(there.descriptor);
  std::array<char, 64> link{};
  const ssize_t length = ::readlink(path.c_str(), link.data(), link.size());
  if (length < 0) {
    refuse_memory(errno, "cannot look at the node's cache, " + path);
  }
  if (std::string_view(link.data(), static_cast<std::size_t>(length)) != link_text) {
    refuse_memory(ESRCH, path + " is not the node's cache");
  }
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status{};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    refuse_memory(errno, "cannot open the node's cache, " + path);
  }
  if (status.st_dev != there.device || status.st_ino != there.inode ||
      static_cast<std::uint64_t>(status.st_size) != round_up(bytes, kernel_page_bytes)) {
    refuse_memory(ESRCH, path + " is another job's cache");
  }
  return {std::move(file), bytes};
}

}  // namespace tiermap
