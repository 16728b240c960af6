// The `tiermap` command: reads the command line, runs one subcommand, and turns errors into one line and an exit code:
// 2 for what the user can correct, 1 for what failed.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"
#include "tiermap/version.hpp"

namespace tiermap {
namespace {

constexpr int exit_failure = 1;
constexpr int exit_bad_input = 2;

/// Messages of the command line's library may go over several lines.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// The words that were to be a subcommand and are none; empty if there are no such words.
std::string unknown_command(const CLI::App& program, int argc, char** argv) {
  const CLI::App* command = &program;
  std::string words;
  for (int index = 1; index < argc && command->get_require_subcommand_min() != 0; ++index) {
    const std::string word = argv[index];
    if (word == "-h" || word == "--help" || word == "--version") {
      return "";
    }
    words += (words.empty() ? "" : " ") + word;
    const auto known = command->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    if (known.empty()) {
      return words;
    }
    command = known.front();
  }
  return "";
}

/// The subcommand that was chosen, below all those around it; the program itself if none was.
const CLI::App& chosen_command(const CLI::App& program) {
  const std::vector<CLI::App*> chosen = program.get_subcommands();
  return chosen.empty() ? program : chosen_command(*chosen.front());
}

/// As it is called: "tiermap heap ls".
std::string words_of(const CLI::App& command) {
  const CLI::App* const around = command.get_parent();
  return (around != nullptr ? words_of(*around) + " " : std::string()) + command.get_name();
}

/// The first word before `--` that looks like an option and is none of the subcommand's; empty if there is none. The
/// command line's library names what it could not place afterwards instead: a misspelt option's value.
std::string unknown_option(const CLI::App& command, int argc, char** argv) {
  for (int i = 2; i < argc && std::string_view(argv[i]) != "--" && command.get_parent() != nullptr; ++i) {
    const std::string word = argv[i];
    const std::string name = word.substr(0, word.find('='));
    if (name.size() > 1 && name.front() == '-' && command.get_option_no_throw(name) == nullptr) {
      return name;
    }
  }
  return "";
}

/// The word behind a `--report` of `tiermap run`, which was meant as its file: a `--` follows, before the program.
std::string report_file_apart(const CLI::App& command, int argc, char** argv) {
  const std::vector<std::string_view> words(argv, argv + argc);
  const auto end = std::ranges::find(words, "--");
  const auto report = std::find(words.begin(), end, "--report");
  const bool apart = command.get_name() == "run" && end - report > 1 && !(report + 1)->starts_with('-');
  return apart && end != words.end() ? std::string(*(report + 1)) : "";
}

/// The first option of the subcommand's behind the program that it is to run, where no `--` says whose that is; empty
/// if there is none. The command line's library would take it away from the program.
std::string option_behind_program(const CLI::App& program, int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  const auto found =
      program.get_subcommands([&](const CLI::App* one) { return words.size() > 1 && one->get_name() == words[1]; });
  if (found.empty() || found.front()->get_option_no_throw("COMMAND") == nullptr ||
      std::ranges::find(words, "--") != words.end()) {
    return "";
  }
  const CLI::App& command = *found.front();
  bool behind = false;
  for (std::size_t index = 2; index < words.size(); ++index) {
    const std::string& word = words[index];
    const std::string name = word.substr(0, word.find('='));
    if (name.size() < 2 || name.front() != '-') {
      behind = true;
      continue;
    }
    const CLI::Option* const option = command.get_option_no_throw(name);
    if (option == nullptr || behind) {
      return option == nullptr ? "" : name;
    }
    if (name == word && option->get_items_expected_min() > 0) {
      ++index;  // Its value.
    }
  }
  return "";
}

/// The first of the subcommand's options with nothing behind its =, as `--match=$UNSET` is; empty if there is none. The
/// command line's library would take the next word for its value, whatever that is.
std::string option_without_value(const CLI::App& program, int argc, char** argv) {
  const CLI::App* command = &program;
  for (int index = 1; index < argc && std::string_view(argv[index]) != "--"; ++index) {
    const std::string word = argv[index];
    const auto known = command->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    command = known.empty() ? command : known.front();
    const std::string name = word.substr(0, word.size() - 1);
    const CLI::Option* const option =
        word.starts_with("--") && word.ends_with('=') ? command->get_option_no_throw(name) : nullptr;
    if (option != nullptr && option->get_items_expected_min() > 0) {
      return word;
    }
  }
  return "";
}

std::string explain(const CLI::ParseError& error, const CLI::App& program, int argc, char** argv) {
  const CLI::App& command = chosen_command(program);
  const std::string option = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)
                                 ? unknown_option(command, argc, argv)
                                 : std::string();
  if (const std::string file = report_file_apart(command, argc, argv); option.empty() && !file.empty()) {
    return "--report takes its file behind a =: give --report=" + file;
  }
  return (option.empty() ? one_line(error.what()) : "unknown option " + quote_value(option)) + ": run '" +
         words_of(command) + " --help'" +
         (!option.empty() && command.get_name() == "run" ? "; what is the program's own stands behind --" : "");
}

/// One line on standard error, if anybody can read it.
void complain(const std::string& message) {
  std::fputs(("tiermap: " + message + "\n").c_str(), stderr);
}

int run(int argc, char** argv) {
  CLI::App program("What this machine offers Tiermap, what it is configured to do, and what programs do with it.",
                   "tiermap");
  program.require_subcommand(1);
  program.set_version_flag("--version", std::string("tiermap ") + TIERMAP_VERSION);
  add_config_command(program);
  add_doctor_command(program);
  add_heap_command(program);
  add_replay_command(program);
  add_run_command(program);
#ifdef TIERMAP_HAS_UCX
  add_serve_command(program);
#endif
  add_top_command(program);
  add_tune_command(program);
  add_version_command(program);
  add_reference_command(program);
  if (const std::string word = unknown_command(program, argc, argv); !word.empty()) {
    complain("unknown command " + quote_value(word) + ": run 'tiermap --help'");
    return exit_bad_input;
  }
  if (const std::string option = option_behind_program(program, argc, argv); !option.empty()) {
    complain(quote_value(option) + " stands behind the program: give Tiermap's own options before it, and -- between");
    return exit_bad_input;
  }
  if (const std::string option = option_without_value(program, argc, argv); !option.empty()) {
    complain(quote_value(option) + " has no value: give it one, or leave the option out");
    return exit_bad_input;
  }
  try {
    program.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& help) {
    return program.exit(help);
  } catch (const CLI::ParseError& error) {
    complain(explain(error, program, argc, argv));
    return exit_bad_input;
  } catch (const ExitCode& exit) {
    return exit.code;
  } catch (const OptionError& error) {
    complain(error.what());
    return exit_bad_input;
  } catch (const std::exception& error) {
    complain(one_line(error.what()));
    return exit_failure;
  }
}

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  const int code = tiermap::run(argc, argv);
  // What a full disk or a closed pipe swallowed has not been said.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    tiermap::complain("standard output cannot be written: give it room, or read it to the end");
    return std::max(code, 1);
  }
  return code;
}
