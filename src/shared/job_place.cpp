// A job's name, this rank's place in it, and where the servers are: as options or the environment say.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "cluster/memory_protocol.hpp"
#include "cluster/remote/remote_url.hpp"
#include "cluster/wire/address.hpp"
#include "config/size.hpp"
#include "shared/job_implementation.hpp"
#include "shared/launched_rank.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void take_ranks(const JobOptions& options, JobPlace& place) {
  if (options.rank.has_value() != options.ranks.has_value()) {
    throw OptionError("a job is given a rank and no number of ranks, or the other way round: give both, or neither");
  }
  if (options.rank.has_value()) {
    place.rank = *options.rank;
    place.ranks = *options.ranks;
  } else {
    const JobRank launched = launched_rank();
    place.rank = launched.rank;
    place.ranks = launched.ranks;
  }
  if (place.rank >= place.ranks) {
    throw OptionError("rank " + std::to_string(place.rank) + " of " + std::to_string(place.ranks) +
                      " is none: ranks are counted from 0");
  }
}

/// For who did not mean to start ranks: Slurm tells a batch script, too, that it is one of many.
std::string why_a_rank(const JobPlace& place) {
  const RankVariables* const variables = set_rank_variables();
  if (variables == nullptr || place.ranks == 1 || environment(variables->rank) != std::to_string(place.rank) ||
      environment(variables->ranks) != std::to_string(place.ranks)) {
    return "";
  }
  const bool by_slurm = std::string_view(variables->rank) == "SLURM_PROCID";
  return " (" + std::string(variables->rank) + " and " + variables->ranks + " make this process rank " +
         std::to_string(place.rank) + " of " + std::to_string(place.ranks) + ": " +
         (by_slurm ? "in a batch script start all of them with `srun`, or this one" : "start it") +
         " alone with TIERMAP_RANK=0 TIERMAP_RANKS=1)";
}

void take_servers(std::string text, JobPlace& place) {
  if (text.empty()) {
    text = environment("TIERMAP_SERVERS");
  }
  if (text.empty()) {
    throw OptionError("a job needs a memory server: start one with `tiermap serve`, and name it in TIERMAP_SERVERS" +
                      why_a_rank(place));
  }
  std::string_view left = text;
  std::map<std::string, std::string> by_address;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(','), left.size());
    const HostAndPort server = parse_host_and_port(left.substr(0, end), "server");
    const auto [before, is_new] = by_address.emplace(resolve(server).text(), server.text());
    if (!is_new) {
      throw OptionError("servers " + quote_value(before->second) + " and " + quote_value(server.text()) + " of " +
                        quote_value(text) + " are one: name each server once");
    }
    place.servers.push_back(server);
    left.remove_prefix(std::min(end + 1, left.size()));
  }
}

std::uint64_t node_cache_bytes(const JobOptions& options) {
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 46U;
  const std::string said = environment("TIERMAP_NODE_CACHE");
  const std::uint64_t bytes =
      options.node_cache_bytes.value_or(said.empty() ? 0 : parse_size(said, "TIERMAP_NODE_CACHE"));
  if (bytes != 0 && (bytes < NodeCache::least_bytes || bytes > most_bytes)) {
    throw OptionError("the cache of a node cannot have " + format_size(bytes) + " (TIERMAP_NODE_CACHE): choose 0, or " +
                      format_size(NodeCache::least_bytes) + " to " + format_size(most_bytes));
  }
  return bytes;
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
  place.host = !options.host.empty() ? options.host : environment("TIERMAP_RANK_HOST");
  place.tree_degree = options.tree_degree;
  place.relay_bytes = options.relay_bytes;
  place.node_cache_bytes = node_cache_bytes(options);
  place.goes_on = options.go_on_without_lost_ranks;
  if (place.goes_on && place.node_cache_bytes != 0) {
    throw OptionError("job " + quote_value(place.name) +
                          " goes on without ranks that it loses, and cannot have a cache of nodes: set no "
                          "TIERMAP_NODE_CACHE, or do not set go_on_without_lost_ranks",
                      ENOTSUP);
  }
  if (place.tree_degree == 0 || place.tree_degree > 16) {
    throw OptionError("a tree of ranks cannot have degree " + std::to_string(place.tree_degree) + ": choose 1 to 16");
  }
  return place;
}

}  // namespace tiermap
