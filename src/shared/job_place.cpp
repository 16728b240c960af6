// Which rank this is, of how many, and where the servers are: as options or the environment say.
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cluster/memory_protocol.hpp"
#include "cluster/remote/remote_url.hpp"
#include "config/size.hpp"
#include "shared/job_implementation.hpp"
#include "tiermap/error.hpp"

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

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::uint32_t number_in(const char* name) {
  const std::string text = environment(name);
  std::uint32_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    throw OptionError(std::string(name) + " is " + quote_value(text) + ", and no number: set it to one from 0 on");
  }
  return number;
}

void take_ranks(const JobOptions& options, JobPlace& place) {
  if (options.rank.has_value() != options.ranks.has_value()) {
    throw OptionError("a job is given a rank and no number of ranks, or the other way round: give both, or neither");
  }
  if (options.rank.has_value()) {
    place.rank = *options.rank;
    place.ranks = *options.ranks;
  } else {
    for (const RankVariables& variables : rank_variables) {
      if (std::getenv(variables.rank) != nullptr) {
        place.rank = number_in(variables.rank);
        place.ranks = number_in(variables.ranks);
        break;
      }
    }
  }
  if (place.rank >= place.ranks) {
    throw OptionError("rank " + std::to_string(place.rank) + " of " + std::to_string(place.ranks) +
                      " is none: ranks are counted from 0");
  }
}

void take_servers(std::string text, JobPlace& place) {
  if (text.empty()) {
    text = environment("TIERMAP_SERVERS");
  }
  if (text.empty()) {
    throw OptionError("a job needs a memory server: start one with `tiermap serve`, and name it in TIERMAP_SERVERS");
  }
  std::string_view left = text;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(','), left.size());
    place.servers.push_back(parse_host_and_port(left.substr(0, end), "server"));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
}

}  // namespace

JobPlace job_place(const JobOptions& options) {
  JobPlace place;
  place.name = !options.name.empty() ? options.name : environment("TIERMAP_JOB");
  if (place.name.empty()) {
    place.name = "job";
  }
  if (!is_plain_name(place.name)) {
    throw OptionError("a job cannot be called " + quote_value(place.name) +
                      ": write up to 64 letters, digits, '_', '-' and '.'");
  }
  take_ranks(options, place);
  take_servers(options.servers, place);
  place.login = login_from_environment("");
  place.timeout = options.timeout;
  place.join_patience = options.join_patience;
  return place;
}

}  // namespace tiermap
