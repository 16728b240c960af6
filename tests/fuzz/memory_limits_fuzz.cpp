// Whatever the kernel's files on memory say, what is made of them is possible: no more may be taken than is available,
// or than a control group has left. The input is those files one after another, with a line "--" between two.
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "platform/memory_limits.hpp"

namespace {

using tiermap::MachineMemory;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// A machine's files, in memory, gone with the object. The group /group is there in both versions, and says the same.
class MachineFiles {
 public:
  MachineFiles() {
    std::string pattern = "/dev/shm/tiermap-fuzz-XXXXXX";
    require(::mkdtemp(pattern.data()) != nullptr);
    root_ = pattern;
    for (const char* folder : {"proc/self", "proc/pressure", "sys/fs/cgroup/group", "sys/fs/cgroup/memory/group"}) {
      std::filesystem::create_directories(root_ / folder);
    }
    const std::filesystem::path group = root_ / "sys/fs/cgroup/group";
    const std::filesystem::path group_of_version_1 = root_ / "sys/fs/cgroup/memory/group";
    std::filesystem::create_symlink(group / "memory.max", group_of_version_1 / "memory.limit_in_bytes");
    std::filesystem::create_symlink(group / "memory.current", group_of_version_1 / "memory.usage_in_bytes");
    std::filesystem::create_symlink(group / "memory.stat", group_of_version_1 / "memory.stat");
  }
  ~MachineFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  MachineFiles(const MachineFiles&) = delete;
  MachineFiles& operator=(const MachineFiles&) = delete;

  std::string root() const { return root_.string(); }

  void write(std::string_view text) {
    for (const char* file :
         {"proc/meminfo", "proc/self/cgroup", "sys/fs/cgroup/group/memory.max", "sys/fs/cgroup/group/memory.current",
          "sys/fs/cgroup/group/memory.stat", "sys/fs/cgroup/group/memory.pressure", "proc/pressure/memory"}) {
      constexpr std::string_view between = "\n--\n";
      const std::size_t end = text.find(between);
      std::ofstream(root_ / file, std::ios::binary) << text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + between.size());
    }
  }

 private:
  std::filesystem::path root_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MachineFiles files;
  files.write(std::string_view(reinterpret_cast<const char*>(data), size));
  const MachineMemory memory = tiermap::read_machine_memory(files.root());
  require(memory.usable_bytes() <= memory.available);
  if (memory.cgroup_limit == MachineMemory::unlimited) {
    require(memory.usable_bytes() == memory.available);
  } else {
    require(memory.total == 0 || memory.cgroup_limit < memory.total);
    require(memory.usable_bytes() <= memory.cgroup_limit);
    require(memory.cgroup_usage >= memory.cgroup_limit ||
            memory.usable_bytes() <= memory.cgroup_limit - memory.cgroup_usage);
  }
  require(!memory.pressure_some_avg10 ||
          (std::isfinite(*memory.pressure_some_avg10) && *memory.pressure_some_avg10 >= 0));
  return 0;
}
