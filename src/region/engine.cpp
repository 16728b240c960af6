// Which engine: what was asked for, or the best that this machine allows, and why.
#include "region/engine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "platform/address_range.hpp"
#include "platform/page_sizes.hpp"
#include "platform/userfaultfd.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

// "/dev/userfaultfd: Permission denied (give the user ...); ..." for each way that was refused.
std::string refusals(const UserfaultfdProbe& probe) {
  std::string text;
  for (const UserfaultfdAttempt& attempt : probe.attempts) {
    if (attempt.error_number != 0) {
      text += (text.empty() ? "" : "; ") + attempt.way + ": " + std::strerror(attempt.error_number) + " (" +
              attempt.remedy + ")";
    }
  }
  return text;
}

std::string way_that_worked(const UserfaultfdProbe& probe) {
  return probe.attempts.back().way;
}

bool has_features(const UserfaultfdProbe& probe, std::uint64_t features) {
  return (probe.features & features) == features;
}

struct Choice {
  FaultMode mode;
  std::string reason;
};

Choice choose(const UserfaultfdProbe& probe) {
  const bool usable = probe.available && has_features(probe, UFFD_FEATURE_PAGEFAULT_FLAG_WP);
  if (!usable) {
    return {FaultMode::kernel,
            probe.available ? "kernel: this kernel's userfaultfd has no write-protection; Linux 5.11 and later have it"
                            : "kernel: userfaultfd is refused; " + refusals(probe)};
  }
  if (!probe.user_mode_only) {
    return {FaultMode::notify, "notify: serves every access, those of system calls included (by " +
                                   way_that_worked(probe) +
                                   "); self-serving is faster for programs that hand no region memory to system calls"};
  }
  return {
      FaultMode::self_serving,
      "self-serving: only user-mode faults are allowed here, so a system call that is handed an absent page fails; " +
          refusals(probe)};
}

void require(FaultMode mode, const UserfaultfdProbe& probe) {
  std::uint64_t needed = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  if (mode == FaultMode::self_serving) {
    needed |= UFFD_FEATURE_SIGBUS;
  }
  if (!probe.available) {
    throw PlatformError(probe.attempts.back().error_number,
                        "userfaultfd is refused: " + refusals(probe) + "; or use fault mode kernel");
  }
  if (!has_features(probe, needed)) {
    throw PlatformError(EINVAL,
                        "this kernel's userfaultfd lacks a feature the fault mode needs: use Linux 5.11 or later, or "
                        "fault mode kernel");
  }
}

/// Where the kernel serves faults, nobody else sees them.
void refuse_trace(const ResolvedCacheOptions& options, const char* why) {
  if (!options.trace_file.empty()) {
    throw OptionError("trace file " + options.trace_file + " would stay empty: fault mode kernel, " + why +
                      ", sees no accesses; leave out the trace, or use fault mode notify or self-serving");
  }
}

}  // namespace

void Engine::check_room(const RegionOptions& options, const ResolvedRegionOptions& resolved) const {
  const std::uint64_t bytes = round_up(std::max(options.length, options.reserve_bytes), kernel_page_bytes);
  if (bytes == 0) {
    return;
  }
  if (options.address != nullptr) {
    if (options.replacement != Replacement::none) {
      return;  // What is there is room enough, and not ours to try.
    }
    AddressRange::reserve_at(options.address, bytes, PROT_NONE, Replacement::none);
  } else {
    // With a word for each page, and what alignment takes.
    const std::uint64_t least_page = resolved.page_size_follows_access ? kernel_page_bytes : resolved.page_size_bytes;
    const std::uint64_t page_words = bytes / least_page * sizeof(std::uint64_t);
    AddressRange::reserve(bytes + page_words + huge_page_bytes, kernel_page_bytes, PROT_NONE);
  }
}

std::shared_ptr<Engine> make_engine(const ResolvedCacheOptions& options) {
  if (options.fault_mode == FaultMode::kernel) {
    refuse_trace(options, "asked for");
    return make_kernel_engine(options, "kernel: asked for");
  }
  const UserfaultfdProbe probe = probe_userfaultfd();
  Choice choice{options.fault_mode,
                options.fault_mode == FaultMode::notify ? "notify: asked for" : "self-serving: asked for"};
  if (options.fault_mode == FaultMode::automatic) {
    choice = choose(probe);
  } else {
    require(options.fault_mode, probe);
    if (probe.user_mode_only) {
      choice.reason += "; user-mode faults only: " + refusals(probe);
    }
  }
  if (choice.mode == FaultMode::kernel) {
    refuse_trace(options, "all that this machine allows");
    return make_kernel_engine(options, choice.reason);
  }
  return make_userfaultfd_engine(options, choice.mode, choice.reason);
}

}  // namespace tiermap
