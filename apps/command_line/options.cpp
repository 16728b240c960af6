#include "command_line/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <thread>

#include "command_line/choice.hpp"
#include "config/option_table.hpp"
#include "config/resolve.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_default_page = 4U << 10U;
constexpr std::uint64_t least_default_pages = 32;
constexpr const char* library_chooses = "auto";
/// With fewer, threads that are at as many places take each other's pages all the time.
constexpr std::uint64_t least_default_pages_a_thread = 2;

constexpr Names<System, 3> systems = {
    {{"tiermap", System::tiermap}, {"mmap", System::mmap}, {"memory", System::memory}}};
constexpr Names<Advice, 3> advices = {
    {{"normal", Advice::normal}, {"random", Advice::random}, {"sequential", Advice::sequential}}};
constexpr Names<FaultMode, 4> fault_modes = {{{"auto", FaultMode::automatic},
                                              {"notify", FaultMode::notify},
                                              {"self-serving", FaultMode::self_serving},
                                              {"kernel", FaultMode::kernel}}};
constexpr Names<bool, 2> switches = {{{"on", true}, {"off", false}}};

std::uint64_t checked_page_size(const std::string& text) {
  const std::uint64_t bytes = parse_size(text, "page size");
  if (!std::has_single_bit(bytes) || bytes < (4U << 10U) || bytes > (64U << 20U)) {
    throw OptionError(
        fmt::format("page size {} is not a power of two from 4KiB to 64MiB: choose for example {}", text,
                    format_size(std::clamp<std::uint64_t>(std::bit_floor(bytes), 4U << 10U, 64U << 20U))));
  }
  return bytes;
}

}  // namespace

const char* system_name(System system) noexcept {
  return systems[static_cast<std::size_t>(system)].first;
}

std::uint64_t parse_whole_number(const std::string& text, const std::string& what, std::uint64_t least,
                                 std::uint64_t most) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most) {
    throw OptionError(fmt::format("{} {} is not a whole number from {} to {}: choose one", what, text, least, most));
  }
  return number;
}

double parse_real_number(const std::string& text, const std::string& what, double least, double most) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || !(number >= least && number <= most)) {
    throw OptionError(fmt::format("{} {} is no number from {} to {}: choose one", what, text, least, most));
  }
  return number;
}

// When the help is asked for, by which time all options are declared.
void show_options_of_program(CLI::App& command, std::vector<std::string> names) {
  command.footer([&command, names = std::move(names)] {
    std::string text = "Options of the program that it takes:\n";
    for (const std::string& name : names) {
      const CLI::Option* const option = command.get_parent()->get_option(name);
      text += CLI::Formatter().make_option(option, option->get_positional());
    }
    return text;
  });
}

void SharedOptions::add_peer(const std::string& name) {
  peers_.push_back(name);
  system_option_->description(system_option_->get_description() + ", or " + name);
}

void SharedOptions::declare(CLI::App& app, std::uint64_t default_page_size) {
  default_page_size_ = default_page_size;
  system_option_ =
      app.add_option("--system", system_, "Who pages: tiermap, mmap or memory (all of the file read in first)");
  app.add_option("--madvise", advice_, "What to advise for the whole mapping: normal, random or sequential");
  app.add_option("--file", plain_.file, "URL or path of the data; without it a scratch file in $TMPDIR or /var/tmp");
  app.add_option("--bytes", bytes_, "Size of the data to generate, such as 4GiB");
  app.add_option(
      "--budget", budget_,
      "Memory for pages, such as 1GiB (default: TIERMAP_BUFFER_SIZE, the file of options, or half of what is "
      "available)");
  app.add_option("--page-size", page_size_,
                 "UPage size of tiermap, a power of two from 4KiB to 64MiB, or auto: the library's own choice");
  app.add_option("--threads", threads_, "Threads that work (default: one a processor)");
  app.add_option("--policy", policy_, "Eviction policy of tiermap");
  app.add_option("--fault-mode", fault_mode_, "Fault engine of tiermap: auto, notify, self-serving or kernel");
  app.add_option("--read-ahead", read_ahead_, "Most that tiermap reads ahead of one stream, such as 4MiB; 0 for none");
  app.add_option("--prefetch", prefetch_, "Say in advance what will be touched: on or off");
  app.add_option("--seed", seed_, "Seed of everything random, a whole number (default: 1)");
  app.add_flag("--verify,!--no-verify", plain_.verify, "Check the result (the default)");
  app.add_flag("--keep", plain_.keep, "Keep the file that was made");
  app.add_flag("--json", plain_.json, "One JSON object on standard output");
}

WorkloadOptions SharedOptions::checked() const {
  WorkloadOptions options = plain_;
  if (std::find(peers_.begin(), peers_.end(), system_) != peers_.end()) {
    options.system = System::mmap;
    options.peer = system_;
  } else {
    options.system = choose(systems, system_, "system");
  }
  options.advice = choose(advices, advice_, "advice");
  options.prefetch = choose(switches, prefetch_, "prefetch");
  if (!bytes_.empty()) {
    options.bytes = parse_size(bytes_, "size");
  }
  if (!budget_.empty()) {
    options.budget_bytes = parse_budget(budget_, "budget");
    if (*options.budget_bytes < least_default_page) {
      throw OptionError(fmt::format("budget {} is under a page of {}: choose {} or more", budget_,
                                    format_size(least_default_page),
                                    format_size(option_row(OptionId::buffer_size).minimum)));
    }
  }
  options.threads = threads_.empty() ? std::max(1U, std::thread::hardware_concurrency())
                                     : static_cast<std::uint32_t>(parse_whole_number(threads_, "threads", 1, 1024));
  if (!page_size_.empty() && page_size_ != library_chooses) {
    options.page_size_bytes = checked_page_size(page_size_);
  } else if (page_size_.empty() && options.system == System::tiermap) {
    options.page_size_bytes = page_size_for(options.budget_bytes, options.threads);
  }
  if (!policy_.empty()) {
    options.policy = policy_;
  }
  if (!fault_mode_.empty()) {
    options.fault_mode = choose(fault_modes, fault_mode_, "fault mode");
  }
  if (!read_ahead_.empty()) {
    options.read_ahead_bytes = parse_size(read_ahead_, "read-ahead");
  }
  options.seed = parse_whole_number(seed_, "seed", 0, std::numeric_limits<std::uint64_t>::max());
  return options;
}

/// Nothing if environment or file chose a page size: the library finds it there itself.
std::optional<std::uint64_t> SharedOptions::page_size_for(std::optional<std::uint64_t> budget_bytes,
                                                          std::uint32_t threads) const {
  std::uint64_t budget = 0;
  for (const OptionReport& report : report_options()) {
    if (report.name == option_row(OptionId::page_size).name && report.origin != "default") {
      return std::nullopt;
    }
    if (report.name == option_row(OptionId::buffer_size).name) {
      budget = budget_bytes.value_or(report.number.value_or(0));
    }
  }
  std::uint64_t bytes = default_page_size_;
  // A small budget should still be many pages.
  const std::uint64_t least_pages = std::max(least_default_pages, threads * least_default_pages_a_thread);
  while (bytes > least_default_page && budget / bytes < least_pages) {
    bytes /= 2;
  }
  return bytes;
}

}  // namespace tiermap
