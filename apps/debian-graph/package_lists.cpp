// Finding apt's package lists, and reading them through apt where they are compressed.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <system_error>

#include "debian-graph/package_graph.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* apt_helper = "/usr/lib/apt/apt-helper";
constexpr std::array<const char*, 5> compressions = {".lz4", ".xz", ".gz", ".bz2", ".zst"};

bool ends_with_any(const std::string& name, std::span<const char* const> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const std::string& ending) { return name.ends_with(ending); });
}

bool is_package_list(const std::string& name) {
  const std::size_t at = name.rfind("_Packages");
  return at != std::string::npos &&
         (at + 9 == name.size() || (ends_with_any(name, compressions) && name.find('.', at) == at + 9));
}

std::string read_to_end(int descriptor) {
  std::string text;
  std::array<char, 1U << 16U> buffer;
  for (ssize_t got = 0; (got = ::read(descriptor, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

/// What `apt-helper cat-file PATH` prints: apt knows every compression it stores lists in.
std::string unpacked_by_apt(const std::string& path) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw PlatformError(errno, "no pipe is to be had for reading package lists");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  // What is wrong is said here, in one line.
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string program = apt_helper;
  std::string command = "cat-file";
  std::string argument = path;
  std::array<char*, 4> arguments = {program.data(), command.data(), argument.data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, apt_helper, &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text = failed == 0 ? read_to_end(ends[0]) : std::string();
  ::close(ends[0]);
  int status = 0;
  if (failed != 0 || ::waitpid(child, &status, 0) < 0 || status != 0) {
    const std::string why = failed != 0 ? std::generic_category().message(failed) : "it does not understand the file";
    throw StoreError(EINVAL, fmt::format("{} cannot be unpacked by {} ({}): install apt, or unpack the list", path,
                                         apt_helper, why));
  }
  return text;
}

}  // namespace

std::vector<std::string> find_package_lists(const std::string& folder) {
  std::vector<std::string> lists;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_package_list(entry.path().filename().string())) {
      lists.push_back(entry.path().string());
    }
  }
  std::sort(lists.begin(), lists.end());
  return lists;
}

void add_list_file(PackageGraph& graph, const std::string& path) {
  // Opening a FIFO would wait until somebody writes.
  std::error_code error;
  if (const auto status = std::filesystem::status(path, error);
      std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw StoreError(EINVAL, fmt::format("{} is no plain file: remove it, or name another folder with --lists", path));
  }
  if (ends_with_any(path, compressions)) {
    std::istringstream list(unpacked_by_apt(path));
    graph.add_list(list);
    return;
  }
  std::ifstream list(path);
  if (!list) {
    const int number = errno;
    throw StoreError(number, fmt::format("{} cannot be read ({}): allow it, or name another folder with --lists", path,
                                         std::generic_category().message(number)));
  }
  graph.add_list(list);
}

}  // namespace tiermap
