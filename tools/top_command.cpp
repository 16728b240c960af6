// `tiermap top`: the caches of this user's programs and their regions, live.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <memory>
#include <thread>

#include "commands.hpp"
#include "config/size.hpp"
#include "top/report.hpp"
#include "top/sample.hpp"
#include "top/screen.hpp"

namespace tiermap {
namespace {

constexpr const char* nothing_runs = "No cache of yours runs now. (Programs with TIERMAP_PUBLISH=false are not seen.)";

struct TopOptions {
  double interval_seconds = 1;
  bool once = false;
  bool json = false;
};

std::chrono::milliseconds interval_of(const TopOptions& options) {
  constexpr double milliseconds_a_second = 1000;
  return std::chrono::milliseconds(static_cast<long>(options.interval_seconds * milliseconds_a_second));
}

/// Empty if `text` can be an interval, else what is wrong with it.
std::string check_interval(const std::string& text) {
  constexpr double shortest = 0.1;
  constexpr double longest = 3600;
  double seconds = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool good =
      error == std::errc{} && stop == text.data() + text.size() && seconds >= shortest && seconds <= longest;
  return good ? "" : quote_value(text) + " is out of range: choose 0.1 to 3600 seconds";
}

/// Rates need two looks; with no cache to be seen there is nothing to wait for.
std::vector<TopLine> look_once(const TopOptions& options) {
  const Look before = take_look();
  if (before.caches.empty()) {
    return {};
  }
  std::this_thread::sleep_for(interval_of(options));
  return compare_looks(before, take_look());
}

void print_once(const TopOptions& options) {
  const std::vector<TopLine> lines = look_once(options);
  if (options.json) {
    fmt::print("{}\n", format_json(lines));
  } else if (lines.empty()) {
    fmt::print("{}\n", nothing_runs);
  } else {
    fmt::print("{}\n", fmt::join(format_table(lines, 0), "\n"));
  }
}

void show_live(const TopOptions& options) {
  Screen screen;
  Look before = take_look();
  do {
    Look after = take_look();
    const std::vector<TopLine> lines = compare_looks(before, after);
    std::vector<std::string> shown = format_table(lines, screen.columns());
    if (lines.empty()) {
      shown.push_back(nothing_runs);
    }
    shown.push_back("");
    shown.push_back("q quits");
    screen.draw(shown);
    before = std::move(after);
  } while (screen.wait(interval_of(options)));
}

}  // namespace

CLI::App* add_top_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "top", "Show the caches of your running programs and their regions, live; once where the output is no terminal.");
  const auto options = std::make_shared<TopOptions>();
  command
      ->add_option("--interval", options->interval_seconds, "Seconds between two looks, 0.1 to 3600; 1 if not given.")
      ->type_name("SECONDS")
      ->check(check_interval, "");
  command->add_flag("--once", options->once, "Print one table, of one interval, and end.");
  command->add_flag("--json", options->json, "Print one JSON object, of one interval, and end.");
  command->callback([options] {
    if (options->once || options->json || ::isatty(STDOUT_FILENO) == 0) {
      print_once(*options);
    } else {
      show_live(*options);
    }
  });
  return command;
}

}  // namespace tiermap
