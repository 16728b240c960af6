// Which rank this process is, as who started it says.
#include "shared/launched_rank.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string>

#include "config/size.hpp"
#include "tiermap/error.hpp"
#include "tiermap/job.hpp"

namespace tiermap {
namespace {

constexpr std::array<RankVariables, 4> rank_variables = {{{"TIERMAP_RANK", "TIERMAP_RANKS"},
                                                          {"PMI_RANK", "PMI_SIZE"},
                                                          {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                          {"SLURM_PROCID", "SLURM_NTASKS"}}};

std::uint32_t number_in(const char* name) {
  const char* const value = std::getenv(name);
  const std::string text = value == nullptr ? "" : value;
  std::uint32_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    throw OptionError(std::string(name) + " is " + quote_value(text) + ", and no number: set it to one from 0 on");
  }
  return number;
}

}  // namespace

const RankVariables* set_rank_variables() noexcept {
  for (const RankVariables& variables : rank_variables) {
    if (std::getenv(variables.rank) != nullptr) {
      return &variables;
    }
  }
  return nullptr;
}

JobRank launched_rank() {
  const RankVariables* const variables = set_rank_variables();
  if (variables == nullptr) {
    return {};
  }
  const std::uint32_t rank = number_in(variables->rank);
  if (std::getenv(variables->ranks) == nullptr) {  // As in a batch script of Slurm's that does not say how many.
    throw OptionError(std::string(variables->rank) + " makes this process a rank, and " + variables->ranks +
                      ", which says of how many, is not set: set it, or start this process alone with TIERMAP_RANK=0 "
                      "TIERMAP_RANKS=1");
  }
  return {rank, number_in(variables->ranks)};
}

}  // namespace tiermap
