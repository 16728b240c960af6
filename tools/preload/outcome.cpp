#include "preload/outcome.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>

#include "config/resolve.hpp"
#include "config/size.hpp"
#include "platform/write_unless_closed.hpp"
#include "preload/advice.hpp"
#include "preload/kernel_calls.hpp"
#include "preload/reasons.hpp"
#include "preload/standard_error.hpp"
#include "store/file_open.hpp"

namespace tiermap::preload {
namespace {

/// Of a buffer in which the engine has something to choose from.
constexpr std::uint64_t comfortable_pages = 64;

void write_text(int descriptor, const std::string& text) noexcept {
  if (descriptor == STDERR_FILENO && !standard_error_can_be_told()) {
    return;
  }
  const int saved = errno;
  without_broken_pipe([&] { return ::syscall(SYS_write, descriptor, text.data(), text.size()); });
  errno = saved;
}

std::string list_of(const std::map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [reason, count] : counts) {
    text += "tiermap:   " + std::to_string(count) + ": " + reason + "\n";
  }
  return text;
}

}  // namespace

/// Of a program of which nothing was served: what would change that, one line; empty if no option does.
std::string Outcome::advise_to_serve() const {
  std::string options;
  const auto add = [&](bool applies, const std::string& option) {
    if (applies) {
      options += (options.empty() ? "" : ", ") + option;
    }
  };
  const auto any = [&](std::initializer_list<const char*> of) {
    return std::ranges::any_of(of, [&](const char* reason) { return left_.contains(reason); });
  };
  const bool named = any({reasons::small, reasons::fits});  // Others are, and would be served.
  const bool small =
      any({reasons::small, reasons::small_and_excluded, reasons::small_and_not_matched, reasons::small_and_private});
  add(any({reasons::private_and_not_matched}) ||
          (!named && any({reasons::not_matched, reasons::small_and_not_matched, reasons::small_and_private})),
      "--match with a pattern of " + in_one_line(unnamed_path_));
  add(small, large_among_small_ < kernel::page_bytes ? "--minimum-size 1" : "--minimum-size 4KiB");
  add(any({reasons::fits}) || unchosen_fits_ || (small && !serve_all_), "--serve-all");  // What is small fits.
  add(any({reasons::excluded}) || (!named && any({reasons::small_and_excluded})), "without that --exclude");
  add(any({reasons::only_reading}), "without --read-only");
  add(std::ranges::any_of(left_, [](const auto& left) { return left.first.starts_with("budget of "); }),
      "--buffer " + format_size(comfortable_pages * resolve(RegionOptions{}).page_size_bytes));
  return options.empty() ? "" : "tiermap: nothing was served: try " + options + "\n";
}

void Outcome::begin_anew() noexcept {
  const std::lock_guard held(mutex_);
  left_.clear();
  unnamed_path_.clear();
  unchosen_fits_ = false;
  large_among_small_ = 0;
  given_.clear();
  served_mappings_ = 0;
  served_bytes_ = 0;
  always_ = false;
}

void Outcome::complain(const std::string& text) {
  write_text(STDERR_FILENO, "tiermap: " + text + "\n");
}

void Outcome::say_once(const std::string& text) {
  if (verbose_ && said_.insert(text).second) {
    complain(text);
  }
}

void Outcome::served(const std::string& path, std::uint64_t bytes) {
  const std::lock_guard held(mutex_);
  ++served_mappings_;
  served_bytes_ += bytes;
  say_once("serves " + path);
}

void Outcome::lengthened(std::uint64_t bytes) noexcept {
  const std::lock_guard held(mutex_);
  served_bytes_ += bytes;
}

void Outcome::left_to_kernel(const std::string& path, const std::string& reason, bool fits) {
  const std::lock_guard held(mutex_);
  unchosen_fits_ = unchosen_fits_ || fits;
  note_left(path, reason);
  say_once("leaves " + path + " to the kernel: " + reason);
}

void Outcome::passed_over(const std::string& path, const char* reason, std::uint64_t bytes) {
  const std::lock_guard held(mutex_);
  large_among_small_ = std::max(large_among_small_, bytes);
  note_left(path, reason);
  say_once(std::string("leaves mappings to the kernel that are ") + reason);
}

void Outcome::note_left(const std::string& path, const std::string& reason) {
  ++left_[reason];
  if (unnamed_path_.empty() && reason.ends_with(reasons::not_matched)) {
    unnamed_path_ = path;
  }
}

void Outcome::given_back(const std::string& path, const std::string& reason) {
  const std::lock_guard held(mutex_);
  ++given_[reason];
  say_once("gives " + path + " back to the kernel: " + reason);
}

int Outcome::keep_standard_error() noexcept {
  constexpr int lowest = 200;  // Above what programs count on.
  const auto kept = static_cast<int>(::syscall(SYS_fcntl, STDERR_FILENO, F_DUPFD_CLOEXEC, lowest));
  standard_error_ = kept < 0 ? STDERR_FILENO : kept;
  return kept;
}

void Outcome::report(Ending ending, const Statistics* statistics, std::uint64_t page_bytes) const {
  const std::lock_guard held(mutex_);
  const bool mapped = served_mappings_ > 0 || !left_.empty();
  if (report_.empty() || (!mapped && (!always_ || ending == Ending::program))) {
    return;
  }
  std::string text = "tiermap: " + program_name() + " (" + std::to_string(::getpid()) +
                     "): " + counted(served_mappings_, "mapping") + " served, " + format_size_rounded(served_bytes_) +
                     " of addresses\n";
  if (statistics != nullptr) {
    text += describe(*statistics) + advise(*statistics, page_bytes);
  }
  if (!mapped) {
    text += "tiermap: it mapped no file: what a program reads by read() and the like is the kernel's\n";
  }
  if (!left_.empty()) {
    text += "tiermap: mappings left to the kernel:\n" + list_of(left_);
  }
  if (served_mappings_ == 0) {
    text += advise_to_serve();
  } else if (left_.contains(reasons::fits)) {
    text +=
        "tiermap: what fits in memory, as far as it stays mapped, has a part of the buffer to itself: with "
        "--serve-all, or a --match of the data alone, what is served has more\n";
  }
  if (!given_.empty()) {
    text += "tiermap: mappings given back to the kernel:\n" + list_of(given_);
  }
  if (report_ == "-") {
    return write_text(standard_error_, text);
  }
  const auto descriptor = static_cast<int>(
      ::syscall(SYS_openat, AT_FDCWD, report_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (descriptor < 0) {
    return complain("report " + report_ + " cannot be written: choose another file");
  }
  write_text(descriptor, text);
  ::syscall(SYS_close, descriptor);
}

}  // namespace tiermap::preload
