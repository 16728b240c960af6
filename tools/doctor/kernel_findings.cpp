#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>

#include "config/size.hpp"
#include "doctor/finding.hpp"
#include "platform/io_ring.hpp"

namespace tiermap {
namespace {

constexpr const char* kernel_section = "kernel";

Finding examine_version() {
  utsname system{};
  ::uname(&system);
  return {kernel_section, "version", Finding::State::good, std::string(system.sysname) + " " + system.release, ""};
}

Finding examine_page_size() {
  constexpr long supported = 4096;
  const long bytes = ::sysconf(_SC_PAGESIZE);
  const std::string value = format_size(static_cast<std::uint64_t>(bytes));
  if (bytes == supported) {
    return {kernel_section, "page size", Finding::State::good, value, ""};
  }
  return {kernel_section, "page size", Finding::State::missing, value,
          "boot a kernel with pages of 4KiB: Tiermap needs them"};
}

std::string io_uring_remedy(int error_number) {
  const std::string disabled = read_line("/proc/sys/kernel/io_uring_disabled");
  if (error_number == EPERM && (disabled == "1" || disabled == "2")) {
    return "set sysctl kernel.io_uring_disabled=0; until then reads are made one at a time by each filler";
  }
  if (error_number == ENOMEM) {
    return "raise the limit on locked memory (ulimit -l)";
  }
  return "use Linux 5.1 or later, and in a container allow io_uring_setup and io_uring_enter in the seccomp profile; "
         "until then reads are made one at a time by each filler";
}

// A ring of the engine's kind: what its threads would make of it is what counts.
Finding examine_io_uring() {
  constexpr unsigned requests = 4;
  const IoRing ring(requests);
  if (ring.asynchronous()) {
    return {kernel_section, "io_uring", Finding::State::good, "works", ""};
  }
  return {kernel_section, "io_uring", Finding::State::limited, describe_error(ring.error_number()),
          io_uring_remedy(ring.error_number())};
}

Finding examine_huge_pages() {
  const std::string line = read_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (line.empty()) {
    return {kernel_section, "huge pages", Finding::State::limited, "not in this kernel",
            "use a kernel with CONFIG_TRANSPARENT_HUGEPAGE: pages of 2MiB and more move faster"};
  }
  const std::size_t start = line.find('[');
  const std::size_t end = line.find(']');
  const std::string chosen =
      start < end && end != std::string::npos ? line.substr(start + 1, end - start - 1) : std::string("unknown");
  if (chosen == "never") {
    return {kernel_section, "huge pages", Finding::State::limited, chosen,
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: pages of 2MiB and more move faster"};
  }
  return {kernel_section, "huge pages", Finding::State::good, chosen, ""};
}

}  // namespace

Findings examine_kernel() {
  return {examine_version(), examine_page_size(), examine_io_uring(), examine_huge_pages()};
}

}  // namespace tiermap
