// What every application is told in the same words, so that runs can be compared by machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tiermap/options.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tiermap {

/// Who brings the bytes into memory.
enum class System : std::uint8_t {
  tiermap,  ///< A Region of a Cache.
  mmap,     ///< mmap() and madvise().
  memory,   ///< The whole file is read into memory first.
};
const char* system_name(System system) noexcept;

/// The shared options, each checked.
struct WorkloadOptions {
  System system = System::tiermap;
  std::string peer;                    ///< A system that only this program has, by name; `system` is then mmap.
  Advice advice = Advice::normal;      ///< normal, sequential or random; for tiermap and mmap alike.
  std::string file;                    ///< URL or path; empty: a scratch file that the program makes and removes.
  std::optional<std::uint64_t> bytes;  ///< Size of what is generated.
  std::optional<std::uint64_t> budget_bytes;  ///< DRAM for pages; what mmap is given is the control group's affair.
  std::optional<std::uint64_t> page_size_bytes;
  std::uint32_t threads = 1;
  std::optional<std::string> policy;
  std::optional<FaultMode> fault_mode;
  std::optional<std::uint64_t> read_ahead_bytes;
  std::optional<std::uint32_t> fillers;  ///< What the program would choose, if environment and file do not.
  std::uint64_t seed = 1;
  bool prefetch = true;  ///< Whether the program says in advance what it will touch.
  bool verify = true;
  bool keep = false;
  bool json = false;
};

/// The help of a subcommand that takes options of its program says which, of these names.
void show_options_of_program(CLI::App& command, std::vector<std::string> names);

/// The shared options as they are typed. Declare them, let CLI11 parse, then take the checked values.
class SharedOptions {
 public:
  /// Declares the options on `app`. `default_page_size` is what the program uses when neither its user nor the
  /// environment nor a configuration file chose, and the budget is not too small for it.
  void declare(CLI::App& app, std::uint64_t default_page_size);

  /// Instead of the one declared; before checked().
  void set_default_page_size(std::uint64_t bytes) { default_page_size_ = bytes; }
  /// Allows a further --system, which the program runs itself; after declare().
  void add_peer(const std::string& name);

  /// Throws OptionError, one line that names the value and the remedy.
  WorkloadOptions checked() const;

 private:
  std::optional<std::uint64_t> page_size_for(std::optional<std::uint64_t> budget_bytes, std::uint32_t threads) const;

  WorkloadOptions plain_;
  CLI::Option* system_option_ = nullptr;
  std::vector<std::string> peers_;
  std::string system_ = "tiermap";
  std::string advice_ = "normal";
  std::string bytes_;
  std::string budget_;
  std::string page_size_;
  std::string threads_;
  std::string policy_;
  std::string fault_mode_;
  std::string read_ahead_;
  std::string prefetch_ = "on";
  std::string seed_ = "1";
  std::uint64_t default_page_size_ = 0;
};

/// A whole number from `text`, no sign, no letters; throws OptionError that names `what` and the range.
std::uint64_t parse_whole_number(const std::string& text, const std::string& what, std::uint64_t least,
                                 std::uint64_t most);
/// The same of an option that need not be given: `otherwise` for an empty text.
inline std::uint64_t whole_number_or(const std::string& text, const std::string& what, std::uint64_t least,
                                     std::uint64_t most, std::uint64_t otherwise) {
  return text.empty() ? otherwise : parse_whole_number(text, what, least, most);
}
/// As parse_whole_number(), for any number, without a unit.
double parse_real_number(const std::string& text, const std::string& what, double least, double most);

}  // namespace tiermap
