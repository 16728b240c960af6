// The free memory is read from meminfo and the control group, version 1 and 2, as trees of files show them.
#include "platform/memory_limits.hpp"

#include "config/environment.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebi = 1024 * 1024;

class MemoryLimits : public CleanEnvironment {
 protected:
  MemoryLimits() { write("proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 1 kB\nMemAvailable:     524288 kB\n"); }
  MachineMemory look() const { return read_machine_memory(folder_.string()); }
};

TEST_F(MemoryLimits, WithoutControlGroupTheMachineDecides) {
  const MachineMemory memory = look();
  EXPECT_EQ(memory.total, 1024 * mebi);
  EXPECT_EQ(memory.available, 512 * mebi);
  EXPECT_EQ(memory.cgroup_limit, MachineMemory::unlimited);
  EXPECT_EQ(memory.usable_bytes(), 512 * mebi);
  EXPECT_FALSE(memory.pressure_some_avg10.has_value());
}

TEST_F(MemoryLimits, Version2WithoutFileCache) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/memory.max", "268435456\n");
  write("sys/fs/cgroup/job/step/memory.current", "167772160\n");
  write("sys/fs/cgroup/job/step/memory.stat", "anon 1\ninactive_file 67108864\nactive_file 33554432\n");
  const MachineMemory memory = look();
  EXPECT_EQ(memory.cgroup_limit, 256 * mebi);
  EXPECT_EQ(memory.cgroup_usage, 64 * mebi);
  EXPECT_EQ(memory.usable_bytes(), 192 * mebi);
}

TEST_F(MemoryLimits, TheTightestGroupAboveCounts) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/job/step/memory.current", "1\n");
  write("sys/fs/cgroup/job/memory.max", "134217728\n");
  write("sys/fs/cgroup/job/memory.current", "100663296\n");
  write("sys/fs/cgroup/memory.max", "536870912\n");
  write("sys/fs/cgroup/memory.current", "104857600\n");
  const MachineMemory memory = look();
  EXPECT_EQ(memory.cgroup_limit, 128 * mebi);
  EXPECT_EQ(memory.usable_bytes(), 32 * mebi);
}

TEST_F(MemoryLimits, WhoLiesInTheGroupThatLimits) {
  write("proc/self/cgroup", "3:cpu:/x\n4:hugetlb,memory:/job/step\n");
  EXPECT_EQ(look().cgroup, "");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "104857600\n");
  EXPECT_EQ(look().cgroup, "hugetlb,memory:/job");
  write("proc/1/cgroup", "3:cpu:/x\n4:hugetlb,memory:/job/other\n");
  write("proc/2/cgroup", "3:cpu:/job\n4:hugetlb,memory:/job2\n");
  write("proc/3/cgroup", "0::/job\n");
  const auto lies_in_it = [&](const char* process, const std::string& cgroup) {
    return lies_in_cgroup(process, cgroup, folder_.string());
  };
  EXPECT_TRUE(lies_in_it("self", look().cgroup));
  EXPECT_TRUE(lies_in_it("1", look().cgroup));
  EXPECT_FALSE(lies_in_it("2", look().cgroup));
  EXPECT_TRUE(lies_in_it("3", look().cgroup)) << "nobody can tell";
  EXPECT_TRUE(lies_in_it("4", look().cgroup)) << "there is none";
  EXPECT_TRUE(lies_in_it("2", "hugetlb,memory:")) << "the mount itself";
  EXPECT_FALSE(lies_in_it("3", ":/step"));
}

TEST_F(MemoryLimits, Version1AndItsWayToSayNoLimit) {
  write("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1048576\n");
  EXPECT_EQ(look().cgroup_limit, MachineMemory::unlimited);
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "104857600\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "104857600\n");
  write("sys/fs/cgroup/memory/job/memory.stat", "cache 9\ntotal_inactive_file 10485760\ntotal_active_file 0\n");
  const MachineMemory memory = look();
  EXPECT_EQ(memory.cgroup_limit, 100 * mebi);
  EXPECT_EQ(memory.usable_bytes(), 10 * mebi);
}

TEST_F(MemoryLimits, InAContainerTheHostsPathIsNotThere) {
  write("proc/self/cgroup", "4:memory:/docker/0123\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "33554432\n");
  EXPECT_EQ(look().usable_bytes(), 32 * mebi);
}

TEST_F(MemoryLimits, UsageAboveTheLimitLeavesNothing) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "1048576\n");
  write("sys/fs/cgroup/memory.current", "2097152\n");
  EXPECT_EQ(look().usable_bytes(), 0U);
}

TEST_F(MemoryLimits, PressureIsTheLargerOne) {
  write("proc/self/cgroup", "0::/job\n");
  write("proc/pressure/memory", "some avg10=1.50 avg60=0.00 avg300=0.00 total=0\nfull avg10=9.00\n");
  EXPECT_DOUBLE_EQ(look().pressure_some_avg10.value_or(-1), 1.5);
  write("sys/fs/cgroup/job/memory.pressure", "some avg10=20.25 avg60=0.00 avg300=0.00 total=0\n");
  EXPECT_DOUBLE_EQ(look().pressure_some_avg10.value_or(-1), 20.25);
}

TEST_F(MemoryLimits, GarbageIsNoLimit) {
  write("proc/self/cgroup", "nonsense\n::\n0::\n4:memory\n\n");
  write("proc/meminfo", "MemTotal\nMemAvailable: many kB\n");
  write("proc/pressure/memory", "some avg10=x\n");
  const MachineMemory memory = look();
  EXPECT_EQ(memory.total, 0U);
  EXPECT_EQ(memory.usable_bytes(), 0U);
  EXPECT_FALSE(memory.pressure_some_avg10.has_value());
}

}  // namespace
}  // namespace tiermap
