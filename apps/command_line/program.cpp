#include "command_line/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/orderly_end.hpp"
#include "command_line/rank_failures.hpp"
#include "tiermap/error.hpp"
#include "tiermap/version.hpp"

namespace tiermap {
namespace {

constexpr int right = 0;
constexpr int wrong = 1;
constexpr int bad_input = 2;

/// One line on standard error, whatever the message holds.
void complain(const std::string& name, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fputs(fmt::format("{}: {}\n", name, message).c_str(), stderr);
}

/// A store that fails while it is used is not its user's mistake; one that cannot be opened is.
bool failed_at_work(const StoreError& error) {
  const int number = error.code().value();
  return number == EIO || number == ENOSPC || number == EDQUOT || number == EPIPE || number == ECONNABORTED;
}

struct Failure {
  int exit_code;
  std::string message;
};

/// What `body` throws; nothing if it returns.
std::optional<Failure> failure_of(const std::function<void()>& body) {
  try {
    body();
    return std::nullopt;
  } catch (const WorkInterrupted&) {
    end_as_asked();
  } catch (const OptionError& error) {
    return Failure{bad_input, error.what()};
  } catch (const PlatformError& error) {
    return Failure{bad_input, error.what()};
  } catch (const StoreError& error) {
    return Failure{failed_at_work(error) ? wrong : bad_input, error.what()};
  } catch (const std::bad_alloc&) {
    return Failure{wrong, "the memory for the program's own tables is not to be had: choose a smaller input"};
  } catch (const std::exception& error) {
    return Failure{wrong, error.what()};
  }
}

/// What the program's user is told of options that cannot be parsed.
std::string unparsed(const CLI::App& app, const CLI::ParseError& error) {
  return fmt::format("{}: see {} --help", error.what(), app.get_name());
}

/// A line for each option that was given, but for those that say how much of its node a rank takes, and for the names
/// of what is read, which may be other ones on other nodes.
std::string given_options(const CLI::App& app) {
  std::string lines = app.get_name() + "\n";
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && !option->get_positional() && name != "--budget" && name != "--threads") {
      lines += fmt::format("{} {}\n", name, fmt::join(option->results(), " "));
    }
  }
  for (const CLI::App* word : app.get_subcommands()) {
    lines += given_options(*word);
  }
  return lines;
}

/// The line of `lines` that has the character at `place`.
std::string line_at(const std::string& lines, std::size_t place) {
  const std::size_t before = place == 0 ? std::string::npos : lines.rfind('\n', place - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::string line = lines.substr(begin, lines.find('\n', begin) - begin);
  return line.empty() ? "nothing more" : fmt::format("'{}'", line);
}

/// Ranks that were told different things would agree about an answer that nobody asked for.
void require_same_options(const CLI::App& app, Ranks& ranks) {
  const std::vector<std::string> all = ranks.texts_of_all(given_options(app));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) {
      const auto differs = static_cast<std::size_t>(std::ranges::mismatch(all[0], all[rank]).in1 - all[0].begin());
      throw OptionError(
          fmt::format("rank 0 was given {}, but rank {} {}: give all ranks the same but --budget and "
                      "--threads",
                      line_at(all[0], differs), rank, line_at(all[rank], differs)));
    }
  }
}

/// Before any thread is started. `name` must stay.
void prepare_process(const char* name) {
  hold_standard_streams();
  remove_scratch_on_interruption(name);
#ifdef M_MMAP_THRESHOLD
  // A fixed threshold: tables and buffers go back to the kernel when they are freed, and do not add to what a budget
  // was meant to limit. Left alone, glibc raises it with the first large block that is freed. Low, since smaller ones,
  // come and gone in 64 threads, leave holes in glibc's 16 heaps that it does not give back.
  ::mallopt(M_MMAP_THRESHOLD, 64 << 10);
#endif
}

}  // namespace

Program::Program(std::string name, const std::string& description, std::uint64_t default_page_size)
    : name_(std::move(name)), app_(description, name_) {
  app_.set_version_flag("--version", name_ + " " + TIERMAP_VERSION);
  shared_.declare(app_, default_page_size);
}

void hold_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    // The lowest number that is free. Only to be read: who writes there is told so, as before.
    if (::fcntl(stream, F_GETFD) < 0 && ::open("/dev/null", O_RDONLY) < 0) {
      return;
    }
  }
}

void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) {
        throw OptionError(fmt::format("{} is given as nothing: give it a value, or leave it out", option->get_name()));
      }
    }
  }
}

int exit_code_of(const std::string& name, const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    const int code = app.exit(error);
    if (!std::cout.flush()) {
      complain(name, unwritable_output);
      return wrong;
    }
    return code;
  }
  complain(name, unparsed(app, error));
  return bad_input;
}

int exit_code_of(const std::string& name, const std::function<int()>& body) {
  int code = right;
  const std::optional<Failure> failure = failure_of([&] { code = body(); });
  if (failure.has_value()) {
    complain(name, failure->message);
    return failure->exit_code;
  }
  return code;
}

int Program::run(int argc, char** argv, const std::function<Report(const WorkloadOptions&)>& work) {
  return run_alone(argc, argv, [&](const WorkloadOptions& options, Ranks&) { return work(options); });
}

int Program::run_alone(int argc, char** argv, const Work& work) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return exit_code_of(name_, app_, error);
  }
  prepare_process(name_.c_str());
  return exit_code_of(name_, [&] {
    Ranks alone;
    return run_parsed(work, alone);
  });
}

int Program::run_on_ranks(int argc, char** argv, const Work& work) {
  JobRank place;
  if (const std::optional<Failure> failure = failure_of([&] { place = launched_rank(); }); failure.has_value()) {
    complain(name_, failure->message);
    return failure->exit_code;
  }
  if (place.ranks == 1 && place.rank == 0) {
    return run_alone(argc, argv, work);
  }
  name_ += fmt::format(": rank {}", place.rank);
  prepare_process(name_.c_str());
  std::optional<Ranks> ranks;
  if (const std::optional<Failure> failure = failure_of([&] { ranks.emplace(place); }); failure.has_value()) {
    complain(name_, failure->message);
    return failure->exit_code;
  }
  return run_joined(argc, argv, work, *ranks);
}

int Program::run_joined(int argc, char** argv, const Work& work, Ranks& ranks) {
  RankFailures failures(ranks, [this](const std::string& message) { complain(name_, message); });
  int code = right;
  const std::optional<Failure> failure = failure_of([&] {
    try {
      app_.parse(argc, argv);
      require_same_options(app_, ranks);
      code = run_parsed(work, ranks);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() != 0) {
        throw OptionError(unparsed(app_, error));
      }
      code = ranks.is_first() ? exit_code_of(name_, app_, error) : right;
    }
    failures.stop_looking();
    ranks.end();
  });
  if (failure.has_value()) {
    failures.tell(failure->message);
    return failure->exit_code;
  }
  return code;
}

int Program::run_parsed(const Work& work, Ranks& ranks) {
  refuse_empty_values(app_);
  if (choose_default_page_size_) {
    shared_.set_default_page_size(choose_default_page_size_());
  }
  const WorkloadOptions options = shared_.checked();
  Report report = work(options, ranks);
  report.combine(ranks);
  const bool failed = report.verified.has_value() && !*report.verified;
  if (!ranks.is_first()) {
    return failed ? wrong : right;
  }
  if (failed) {
    complain(app_.get_name(), report.failure);  // Which names its rank, if there are several.
  }
  // Files need not be called by UTF-8.
  const std::string text =
      options.json ? report.fields.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"
                   : report.summary();
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    complain(name_, unwritable_output);
    return wrong;
  }
  return failed ? wrong : right;
}

}  // namespace tiermap
