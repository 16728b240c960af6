// Replays access traces through every eviction policy, driven the way the engine drives them (replay/simulation.hpp),
// and prints how many pages each would read, relative to LRU that sees every hit and to Belady's optimum that sees the
// future.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cache/policy/make_policy.hpp"
#include "policy_traces.hpp"
#include "replay/simulation.hpp"

namespace tiermap::simulation {
namespace {

struct Wishes {
  std::vector<std::uint32_t> percents{10, 25, 50};
  std::vector<std::string> policies;
  std::vector<std::string> traces;
  std::vector<std::string> files;
  std::uint32_t pages = 4096;
  std::uint32_t batch = 16;
  std::uint64_t seed = 1;
  bool show_rescues = false;
  bool drop = false;
  PolicyOptions options;
};

using TraceMaker = Trace (*)(const Wishes&);
struct NamedTrace {
  const char* name;
  TraceMaker make;
};

constexpr NamedTrace known_traces[] = {
    {"cyclic",
     [](const Wishes& wishes) {
       Trace trace{"cyclic", {}, 0};
       add_scan(trace, 0, wishes.pages, 10);
       return trace;
     }},
    {"bfs",
     [](const Wishes& wishes) {
       return breadth_first_trace("bfs", 18, 16, 16384, 1, FrontierOrder::address, wishes.seed);
     }},
    {"bfs-4-roots",
     [](const Wishes& wishes) {
       return breadth_first_trace("bfs-4-roots", 18, 16, 16384, 4, FrontierOrder::address, wishes.seed);
     }},
    {"bfs-large-pages",
     [](const Wishes& wishes) {
       return breadth_first_trace("bfs-large-pages", 18, 16, 131072, 1, FrontierOrder::address, wishes.seed);
     }},
    {"bfs-queue",
     [](const Wishes& wishes) {
       return breadth_first_trace("bfs-queue", 16, 16, 4096, 1, FrontierOrder::discovery, wishes.seed);
     }},
    {"lists", [](const Wishes& wishes) { return growing_lists_trace("lists", 18, 3000000, 4096, wishes.seed); }},
    {"zipf",
     [](const Wishes& wishes) {
       Random random(wishes.seed);
       Trace trace{"zipf", {}, 0};
       add_zipf(trace, 0, wishes.pages, 400000, 1.0, random);
       return trace;
     }},
    {"search",
     [](const Wishes& wishes) {
       Random random(wishes.seed);
       Trace trace{"search", {}, 0};
       add_searches(trace, wishes.pages, 50000, random);
       return trace;
     }},
    {"uniform",
     [](const Wishes& wishes) {
       Random random(wishes.seed);
       Trace trace{"uniform", {}, 0};
       add_zipf(trace, 0, wishes.pages, 200000, 0.0, random);
       return trace;
     }},
    {"quicksort",
     [](const Wishes& wishes) {
       Random random(wishes.seed);
       Trace trace{"quicksort", {}, 0};
       add_recursive(trace, 0, wishes.pages, random);
       return trace;
     }},
    {"halving",
     [](const Wishes& wishes) {
       Trace trace{"halving", {}, 0};
       for (std::uint32_t size = wishes.pages; size > 1; size /= 2) {
         add_scan(trace, 0, size, 1);
         add_scan(trace, size / 2, size / 2, 1);
       }
       return trace;
     }},
    {"changing",
     [](const Wishes& wishes) {
       Random random(wishes.seed);
       Trace trace{"changing", {}, 0};
       for (std::uint32_t round = 0; round < 2; ++round) {
         add_scan(trace, 0, wishes.pages / 3, 6);
         add_zipf(trace, wishes.pages / 3, wishes.pages / 3, 100000, 1.0, random);
         add_scan(trace, wishes.pages / 3 * 2, wishes.pages / 3, 6);
       }
       return trace;
     }},
};

void report(const Trace& trace, const Wishes& wishes) {
  fmt::print("\n{}: {} pages, {} touches\n", trace.name, trace.pages, trace.touches.size());
  fmt::print("{:>8} {:>10} {:>9}", "memory", "lru misses", "optimum");
  for (const std::string& policy : wishes.policies) {
    fmt::print(" {:>15}", policy);
  }
  fmt::print("\n");
  for (const std::uint32_t percent : wishes.percents) {
    const auto capacity = std::max(2U, static_cast<std::uint32_t>(std::uint64_t{trace.pages} * percent / 100));
    const std::uint64_t reference = lru_misses(trace, capacity);
    const auto against_lru = [reference](std::uint64_t misses) {
      return 100.0 * (static_cast<double>(misses) / static_cast<double>(reference) - 1.0);
    };
    fmt::print("{:>7}% {:>10} {:>+8.1f}%", percent, reference, against_lru(optimal_misses(trace, capacity)));
    for (const std::string& policy : wishes.policies) {
      const Outcome outcome = run_policy(trace, policy, capacity, wishes.options, wishes.batch, {.all = !wishes.drop});
      const double rescues = static_cast<double>(outcome.rescues) / static_cast<double>(reference);
      fmt::print(" {:>15}", wishes.show_rescues ? fmt::format("{:+.1f}% r{:.2f}", against_lru(outcome.misses), rescues)
                                                : fmt::format("{:+.1f}%", against_lru(outcome.misses)));
    }
    fmt::print("\n");
  }
  std::fflush(stdout);
}

std::string trace_names() {
  std::string names;
  for (const NamedTrace& known : known_traces) {
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return names;
}

int run(int argument_count, char** arguments) {
  Wishes wishes;
  for (const std::string_view name : policy_names()) {
    wishes.policies.emplace_back(name);
  }
  CLI::App app{"Misses of every eviction policy relative to LRU that sees hits, over synthetic or recorded traces"};
  app.add_option("--memory", wishes.percents, "Frames, in percent of the trace's pages")
      ->delimiter(',')
      ->check(CLI::Range(1U, 100U));
  app.add_option("--policy", wishes.policies, "Policies to compare")->delimiter(',');
  app.add_option("--trace", wishes.traces,
                 "Synthetic traces to replay, of: " + trace_names() + ". Default: all, unless files are given")
      ->delimiter(',');
  app.add_option("--file", wishes.files, "Files with one page number a line");
  app.add_option("--pages", wishes.pages, "Pages of the synthetic traces that are not graphs")
      ->check(CLI::Range(16U, 1U << 24));
  app.add_option("--batch", wishes.batch, "Pages unmapped at a time")->check(CLI::Range(1U, 4096U));
  app.add_option("--seed", wishes.seed, "Seed of the generators");
  app.add_option("--unmapped-share", wishes.options.unmapped_share_percent, "Percent; 0: each policy's own");
  app.add_option("--hot-share", wishes.options.hot_share_percent, "Percent, for hot-fifo");
  app.add_flag("--drop", wishes.drop, "Drop what is to go, as the engine does with small pages, but for one in 64");
  app.add_flag("--rescues", wishes.show_rescues, "Also print rescues for every miss of LRU");
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const std::string& wanted : wishes.traces) {
    if (std::none_of(std::begin(known_traces), std::end(known_traces),
                     [&](const NamedTrace& known) { return wanted == known.name; })) {
      throw std::runtime_error(fmt::format("trace \"{}\" is unknown: choose from {}", wanted, trace_names()));
    }
  }
  for (const NamedTrace& known : known_traces) {
    const bool wanted = std::find(wishes.traces.begin(), wishes.traces.end(), known.name) != wishes.traces.end();
    if (wanted || (wishes.traces.empty() && wishes.files.empty())) {
      report(known.make(wishes), wishes);
    }
  }
  for (const std::string& path : wishes.files) {
    report(read_trace(path), wishes);
  }
  return 0;
}

}  // namespace
}  // namespace tiermap::simulation

int main(int argument_count, char** arguments) {
  try {
    return tiermap::simulation::run(argument_count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-policy_simulator: {}\n", error.what());
    return 2;
  }
}
