#include <fcntl.h>
#include <unistd.h>
#include <array>

#include <cerrno>
#include <cstdint>

#include "doctor/finding.hpp"
#include "platform/userfaultfd.hpp"

namespace tiermap {
namespace {

constexpr const char* userfaultfd_section = "userfaultfd";

struct Feature {
  std::uint64_t bit;
  const char* name;
  const char* since;
  const char* loss;  ///< What Tiermap does without it.
};

constexpr std::array features = {
    Feature{UFFD_FEATURE_SIGBUS, "SIGBUS", "4.14", "faults cannot be self-served: fault mode notify is used"},
    Feature{UFFD_FEATURE_THREAD_ID, "THREAD_ID", "4.14", "nothing is lost"},
    Feature{UFFD_FEATURE_PAGEFAULT_FLAG_WP, "PAGEFAULT_FLAG_WP", "5.7",
            "writes to regions cannot be seen: fault mode kernel is used"},
    Feature{UFFD_FEATURE_EXACT_ADDRESS, "EXACT_ADDRESS", "5.18", "nothing is lost"},
    Feature{UFFD_FEATURE_WP_UNPOPULATED, "WP_UNPOPULATED", "6.4", "nothing is lost"},
    Feature{UFFD_FEATURE_POISON, "POISON", "6.6", "a page that cannot be read is reported by other means"},
    Feature{UFFD_FEATURE_WP_ASYNC, "WP_ASYNC", "6.7", "nothing is lost"},
    Feature{UFFD_FEATURE_MOVE, "MOVE", "6.8", "pages are copied into place, not moved"},
};

Finding examine_feature(const Feature& feature, std::uint64_t offered) {
  if ((offered & feature.bit) != 0) {
    return {userfaultfd_section, std::string("feature ") + feature.name, Finding::State::good, "offered", ""};
  }
  return {userfaultfd_section, std::string("feature ") + feature.name, Finding::State::limited, "not offered",
          std::string("use Linux ") + feature.since + " or later; without it, " + feature.loss};
}

/// Asks for nothing, of an empty range: only a kernel that knows the call says yes.
Finding examine_pagemap_scan() {
  const int pagemap = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  int error_number = errno;
  if (pagemap >= 0) {
    pm_scan_arg request{};
    request.size = sizeof(request);
    error_number = ::ioctl(pagemap, PAGEMAP_SCAN, &request) >= 0 ? 0 : errno;
    ::close(pagemap);
  }
  if (error_number == 0) {
    return {userfaultfd_section, "PAGEMAP_SCAN", Finding::State::good, "works", ""};
  }
  return {userfaultfd_section, "PAGEMAP_SCAN", Finding::State::limited, describe_error(error_number),
          "use Linux 6.7 or later; without it, fault mode kernel looks up one by one which pages are in memory"};
}

}  // namespace

Findings examine_userfaultfd() {
  const UserfaultfdProbe probe = probe_userfaultfd();
  Findings findings;
  for (const UserfaultfdAttempt& attempt : try_every_userfaultfd_way()) {
    // One way is enough: another that is refused takes nothing away.
    const auto refused = probe.available ? Finding::State::limited : Finding::State::missing;
    const bool works = attempt.error_number == 0;
    findings.push_back({userfaultfd_section, attempt.way, works ? Finding::State::good : refused,
                        works ? "works" : describe_error(attempt.error_number), attempt.remedy});
  }
  if (probe.user_mode_only) {
    findings.push_back({userfaultfd_section, system_call_faults, Finding::State::limited,
                        "not served: a system call that is handed an absent page fails with EFAULT",
                        "allow /dev/userfaultfd or the system call, as said above"});
  }
  if (probe.available) {
    for (const Feature& feature : features) {
      findings.push_back(examine_feature(feature, probe.features));
    }
  }
  findings.push_back(examine_pagemap_scan());
  return findings;
}

}  // namespace tiermap
