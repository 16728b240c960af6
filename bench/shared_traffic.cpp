// What ranks send and fetch for what they change in a shared vector, counted, not timed: each adds to elements that lie
// between those of the others, or to a part of its own, or only reads. One rank of a job, started as its applications
// are; rank 0 prints what all together did, after every element was looked at.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/size.hpp"
#include "tiermap/job.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap::bench {
namespace {

using Numbers = SharedVector<std::uint64_t>;

/// In front of the body of each request and of each reply.
constexpr std::uint64_t message_head_bytes = 64;

struct TrafficArguments {
  std::string work = "neighbours";
  std::string phase = "shared";
  std::string between = "barrier";
  std::string bytes = "16MiB";
  std::string budget = "64MiB";
  std::string page_size = "64KiB";
  std::uint64_t rounds = 8;

  void declare(CLI::App& app) {
    app.add_option("--work", work, "On elements between those of others (neighbours), or on a part of its own (own)")
        ->check(CLI::IsMember({"neighbours", "own"}));
    app.add_option("--phase", phase, "shared, local or read-only, in which elements are read and not written")
        ->check(CLI::IsMember({"shared", "local", "read-only"}));
    app.add_option("--between", between, "What is between rounds: a barrier, or a release alone")
        ->check(CLI::IsMember({"barrier", "release"}));
    app.add_option("--bytes", bytes, "Of the vector");
    app.add_option("--budget", budget, "Memory of each rank for it");
    app.add_option("--page-size", page_size, "Of its pages");
    app.add_option("--rounds", rounds, "How often each element is used")->check(CLI::Range(1, 1'000'000));
  }
};

Phase phase_named(const std::string& name) {
  return name == "local" ? Phase::local : name == "read-only" ? Phase::read_only : Phase::shared;
}

/// One rank's elements.
struct Elements {
  std::uint64_t first;
  std::uint64_t step;
  std::uint64_t end;

  Elements(const TrafficArguments& arguments, const Job& job, const Numbers& numbers)
      : first(job.rank()), step(job.ranks()), end(numbers.size()) {
    if (arguments.work == "own") {
      const VectorRange part = numbers.partition();
      first = part.first;
      step = 1;
      end = part.first + part.count;
    }
  }
  std::uint64_t count() const { return first < end ? (end - first - 1) / step + 1 : 0; }
};

std::uint64_t sum_of_all(Job& job, std::uint64_t own) {
  std::uint64_t sum = 0;
  for (const std::vector<std::byte>& bytes : job.gather(std::as_bytes(std::span(&own, 1)))) {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof(number));
    sum += number;
  }
  return sum;
}

/// By all ranks, each between the same two barriers.
void work_rounds(const TrafficArguments& arguments, Job& job, Numbers& numbers) {
  const Elements mine(arguments, job, numbers);
  const bool reads = arguments.phase == "read-only";
  for (std::uint64_t round = 0; round < arguments.rounds; ++round) {
    std::uint64_t sum = 0;
    for (std::uint64_t index = mine.first; index < mine.end; index += mine.step) {
      sum += reads ? numbers[index] : ++numbers[index];
    }
    if (sum != (reads ? 0 : mine.count() * (round + 1))) {
      throw std::runtime_error("elements of this rank have been changed by others");
    }
    arguments.between == "barrier" ? job.barrier() : numbers.release();
  }
}

bool every_element_is(const Numbers& numbers, std::uint64_t expected) {
  return std::ranges::all_of(numbers, [&](std::uint64_t number) { return number == expected; });
}

nlohmann::json report_of(const TrafficArguments& arguments, Job& job, std::uint64_t elements,
                         const SharedStatistics& counted) {
  const auto all = [&](std::uint64_t own) { return sum_of_all(job, own); };
  const std::uint64_t messages =
      all(counted.fetches + counted.sends + counted.questions + counted.exchanges + counted.scores);
  const std::uint64_t bodies =
      all(counted.sent_bytes + counted.fetched_bytes + counted.news_bytes + counted.score_bytes);
  // Not what the vector says that it found changed.
  const std::uint64_t changed =
      arguments.phase == "read-only" ? 0 : arguments.rounds * elements * sizeof(std::uint64_t);
  const std::uint64_t moved = bodies + 2 * message_head_bytes * messages;
  nlohmann::json report = {{"program", "shared-traffic"},
                           {"ranks", job.ranks()},
                           {"rounds", arguments.rounds},
                           {"messages", messages},
                           {"coherence_messages", all(counted.questions)},
                           {"changed_bytes", changed},
                           {"found_changed_bytes", all(counted.changed_bytes)},
                           {"sent_bytes", all(counted.sent_bytes)},
                           {"fetched_bytes", all(counted.fetched_bytes)},
                           {"news_bytes", all(counted.news_bytes)},
                           {"node_bytes", all(counted.node_bytes)},
                           {"moved_bytes", moved}};
  if (changed > 0) {
    report["moved_for_changed"] = static_cast<double>(moved) / static_cast<double>(changed);
  }
  return report;
}

SharedStatistics difference(const SharedStatistics& now, const SharedStatistics& before) {
  SharedStatistics counted;
  for (const auto member : {&SharedStatistics::fetches, &SharedStatistics::fetched_bytes, &SharedStatistics::sends,
                            &SharedStatistics::changed_bytes, &SharedStatistics::sent_bytes,
                            &SharedStatistics::questions, &SharedStatistics::news_bytes, &SharedStatistics::exchanges,
                            &SharedStatistics::node_bytes, &SharedStatistics::scores, &SharedStatistics::score_bytes}) {
    counted.*member = now.*member - before.*member;
  }
  return counted;
}

int run(const TrafficArguments& arguments) {
  Job job;
  SharedVectorOptions options;
  options.budget_bytes = parse_size(arguments.budget, "budget");
  options.page_size_bytes = parse_size(arguments.page_size, "page size");
  options.read_ahead_bytes = 0;
  auto numbers = Numbers::create(job, "numbers", parse_size(arguments.bytes, "bytes") / sizeof(std::uint64_t), options);
  numbers.set_phase(phase_named(arguments.phase));
  const SharedStatistics before = numbers.statistics();
  work_rounds(arguments, job, numbers);
  const SharedStatistics worked = difference(numbers.statistics(), before);
  nlohmann::json report = report_of(arguments, job, numbers.size(), worked);
  numbers.set_phase(Phase::shared);
  const std::uint64_t wanted = arguments.phase == "read-only" ? 0 : arguments.rounds;
  const std::uint64_t right = sum_of_all(job, every_element_is(numbers, wanted) ? 1 : 0);
  report["verified"] = right == job.ranks();
  if (job.rank() == 0) {
    std::cout << report.dump() << std::endl;
  }
  numbers.close();
  job.end();
  return right == job.ranks() ? 0 : 1;
}

}  // namespace
}  // namespace tiermap::bench

int main(int argc, char** argv) {
  CLI::App app("What ranks send and fetch for what they change in a shared vector. Servers: TIERMAP_SERVERS");
  tiermap::bench::TrafficArguments arguments;
  arguments.declare(app);
  CLI11_PARSE(app, argc, argv);
  try {
    return tiermap::bench::run(arguments);
  } catch (const std::exception& error) {
    std::cerr << "shared-traffic: " << error.what() << "\n";
    return 1;
  }
}
