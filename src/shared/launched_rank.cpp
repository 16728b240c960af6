// Which rank this process is, as who started it says.
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>

#include "config/size.hpp"
#include "tiermap/error.hpp"
#include "tiermap/job.hpp"

namespace tiermap {
namespace {

struct RankVariables {
  const char* rank;
  const char* ranks;
};
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

JobRank launched_rank() {
  for (const RankVariables& variables : rank_variables) {
    if (std::getenv(variables.rank) != nullptr) {
      return {number_in(variables.rank), number_in(variables.ranks)};
    }
  }
  return {};
}

}  // namespace tiermap
