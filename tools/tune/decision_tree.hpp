// The decision tree of Peng and others, "Enabling Scalable and Extensible Memory-Mapped Datastores in Userspace" (IEEE
// TPDS 2021, section 6.1), made concrete: which options to try next, and why, by what a run did.
//
// The paper's order: how much of what is fetched is used again decides whether pages should be large or small; large
// pages must not bring too much that nobody uses; with small pages the watermarks may raise hits in memory; reads
// against writes, and the device, decide on fillers and evictors. Read-ahead and the policy are Tiermap's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tune/trial.hpp"

namespace tiermap {

/// What is to be tried together, and why.
struct Proposal {
  Settings settings;
  std::string why;
};

/// What a run tells of a program. Shares are 0 to 1.
struct Character {
  double sequential = 0;  ///< Of the pages fetched, those that were read ahead and then used.
  double reused = 0;      ///< Touches of pages that were unmapped but still in memory, for each page fetched.
  double wasted = 0;      ///< Of the pages read ahead, those that nobody used.
  double written = 0;     ///< Of the bytes moved, those written.
  double waiting = 0;     ///< Of the faults, those that found no free frame.
  double queueing = 0;    ///< Time that nine in ten faults waited for a thread, against that of reading.
  bool evicts = false;    ///< A tenth of the pages fetched had to go, or more: memory is short.
};
Character characterise(const Statistics& statistics);

/// Page sizes to try, nearest first, in the direction that locality suggests and in the other one.
struct PageSizes {
  std::vector<std::uint64_t> likely;
  std::vector<std::uint64_t> unlikely;
  std::string why_likely;
  std::string why_unlikely;
};
PageSizes propose_page_sizes(const Character& character, std::uint64_t page_bytes, std::uint64_t budget_bytes);

/// Each a list of steps to climb: as long as one helps, the next is tried. `now` is the value without them.
std::vector<Proposal> propose_read_ahead(const Character& character, std::uint64_t now_bytes,
                                         std::uint64_t budget_bytes);
std::vector<Proposal> propose_fillers(const Character& character, std::uint64_t now);
std::vector<Proposal> propose_evictors(const Character& character, std::uint64_t now);

/// Nothing where the watermarks would change nothing.
std::optional<Proposal> propose_watermarks(const Character& character, std::uint64_t page_bytes);
/// Policies worth a run, the likeliest first.
std::vector<Proposal> propose_policies(const Character& character, const std::string& now);

}  // namespace tiermap
