#include "command_line/program.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <utility>

#include "command_line/backing.hpp"
#include "tiermap/error.hpp"
#include "tiermap/version.hpp"

namespace tiermap {
namespace {

constexpr int right = 0;
constexpr int wrong = 1;
constexpr int bad_input = 2;

constexpr const char* unwritable_output = "standard output cannot be written: give it room, or read it to the end";

/// One line on standard error, whatever the message holds.
void complain(const std::string& name, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fputs(fmt::format("{}: {}\n", name, message).c_str(), stderr);
}

/// A store that fails while it is used is not its user's mistake; one that cannot be opened is.
bool failed_at_work(const StoreError& error) {
  const int number = error.code().value();
  return number == EIO || number == ENOSPC || number == EDQUOT;
}

}  // namespace

Program::Program(std::string name, const std::string& description, std::uint64_t default_page_size)
    : name_(std::move(name)), app_(description, name_) {
  app_.set_version_flag("--version", name_ + " " + TIERMAP_VERSION);
  shared_.declare(app_, default_page_size);
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
  complain(name, fmt::format("{}: see {} --help", error.what(), name));
  return bad_input;
}

int exit_code_of(const std::string& name, const std::function<int()>& body) {
  try {
    return body();
  } catch (const OptionError& error) {
    complain(name, error.what());
    return bad_input;
  } catch (const PlatformError& error) {
    complain(name, error.what());
    return bad_input;
  } catch (const StoreError& error) {
    complain(name, error.what());
    return failed_at_work(error) ? wrong : bad_input;
  } catch (const std::bad_alloc&) {
    complain(name, "the memory for the program's own tables is not to be had: choose a smaller input");
    return wrong;
  } catch (const std::exception& error) {
    complain(name, error.what());
    return wrong;
  }
}

int Program::run(int argc, char** argv, const std::function<Report(const WorkloadOptions&)>& work) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return exit_code_of(name_, app_, error);
  }
  remove_scratch_on_interruption(name_.c_str());
#ifdef M_MMAP_THRESHOLD
  // A fixed threshold: tables and buffers go back to the kernel when they are freed, and do not add to what a budget
  // was meant to limit. Left alone, glibc raises it with the first large block that is freed.
  ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
#endif
  return exit_code_of(name_, [&] {
    refuse_empty_values(app_);
    return run_parsed(work);
  });
}

int Program::run_parsed(const std::function<Report(const WorkloadOptions&)>& work) {
  if (choose_default_page_size_) {
    shared_.set_default_page_size(choose_default_page_size_());
  }
  const WorkloadOptions options = shared_.checked();
  const Report report = work(options);
  const bool failed = report.verified.has_value() && !*report.verified;
  if (failed) {
    complain(name_, report.failure);
  }
  const std::string text = options.json ? report.fields.dump() + "\n" : report.summary();
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    complain(name_, unwritable_output);
    return wrong;
  }
  return failed ? wrong : right;
}

}  // namespace tiermap
