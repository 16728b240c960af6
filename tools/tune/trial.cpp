#include "tune/trial.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include "config/size.hpp"
#include "observe/publication.hpp"
#include "platform/own_descriptor.hpp"
#include "tiermap/error.hpp"
#include "tune/own_work.hpp"

namespace tiermap {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int shell_signal_base = 128;
constexpr std::array<int, 3> ending_signals = {SIGINT, SIGTERM, SIGHUP};

volatile sig_atomic_t end_asked = 0;
std::array<struct sigaction, ending_signals.size()> handlers_before;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// In the new process. The error goes through the pipe, which a successful exec closes.
[[noreturn]] void become(const std::vector<std::string>& command, const Settings& settings, int errors, int failure) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const int number : ending_signals) {
    ::signal(number, SIG_DFL);
  }
  // Each run would find the trace of the one before.
  ::unsetenv("TIERMAP_TRACE");
  ::setenv("TIERMAP_PUBLISH", "true", 1);
  for (const auto& [variable, value] : settings) {
    ::setenv(variable.c_str(), value.c_str(), 1);
  }
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(nothing, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  const int number = errno;
  static_cast<void>(::write(failure, &number, sizeof number) > 0);
  ::_exit(EXIT_FAILURE);
}

/// The command, its process group, and the file that holds what it wrote to standard error.
class Child {
 public:
  Child(const std::vector<std::string>& command, const Settings& settings)
      : errors_(above_standard_streams(::memfd_create("standard error", MFD_CLOEXEC))) {
    std::array<int, 2> failure{};
    if (errors_ < 0 || ::pipe2(failure.data(), O_CLOEXEC) != 0) {
      throw PlatformError(errno, "no file descriptor is left for the command: close some");
    }
    // Whoever started this may ignore it, which is inherited: the command could not be waited for then.
    ::signal(SIGCHLD, SIG_DFL);
    process_ = ::fork();
    if (process_ == 0) {
      become(command, settings, errors_, failure[1]);
    }
    const int fork_error = errno;
    ::close(failure[1]);
    int number = process_ < 0 ? fork_error : 0;
    const bool failed = ::read(failure[0], &number, sizeof number) > 0 || process_ < 0;
    ::close(failure[0]);
    if (failed) {
      if (process_ > 0) {
        ::waitpid(process_, nullptr, 0);
      }
      ::close(errors_);
      throw Error(number, "command " + quote_value(command.front()) + " cannot be started: " + std::strerror(number));
    }
    ::setpgid(process_, process_);  // Whoever is first.
  }
  ~Child() {
    if (!ended_) {
      end();
    }
    ::close(errors_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t group() const { return process_; }
  /// Whether it has ended.
  bool look() {
    ended_ = ended_ || ::waitpid(process_, &status_, WNOHANG) == process_;
    return ended_;
  }
  /// Ends it and all that it started. All have time to remove what they have made: a script ends at once, and what it
  /// runs goes on.
  void end() {
    constexpr double patience_seconds = 10;
    const Clock::time_point asked = Clock::now();
    // What outlives its parent becomes this process's child: only then is it known to have ended.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::kill(-process_, SIGTERM);
    bool all_ended = all_have_ended();
    while (!all_ended && seconds_since(asked) < patience_seconds) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      all_ended = all_have_ended();
    }
    if (!all_ended) {  // Else its number may be another group's by now.
      ::kill(-process_, SIGKILL);
    }
    while (!look()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    // Signals that are held meanwhile interrupt it.
    while (!all_ended && (::waitpid(-process_, nullptr, 0) > 0 || errno == EINTR)) {
    }
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  int exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : shell_signal_base + WTERMSIG(status_); }
  /// The end of what it wrote to standard error.
  std::string errors() const {
    constexpr off_t most = 4096;
    const off_t size = ::lseek(errors_, 0, SEEK_END);
    std::string text(static_cast<std::size_t>(std::clamp<off_t>(size, 0, most)), '\0');
    const ssize_t got = ::pread(errors_, text.data(), text.size(), std::max<off_t>(size - most, 0));
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

 private:
  bool all_have_ended() {
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-process_, &status, WNOHANG)) > 0;) {
      if (ended == process_) {
        ended_ = true;
        status_ = status;
      }
    }
    return ended_ && ::kill(-process_, 0) != 0;
  }

  int errors_;
  pid_t process_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

/// The caches of a process group, each as it was when it was last seen.
class SeenCaches {
 public:
  void look_at(pid_t group) {
    for (ObservedCache& cache : observe_caches()) {
      if (::getpgid(cache.process) == group) {
        caches_[{cache.process, cache.instance}] = std::move(cache);
      }
    }
  }
  bool has_fetched() const {
    return std::ranges::any_of(caches_, [](const auto& entry) { return entry.second.statistics[Counter::fills] > 0; });
  }
  void look_at_work(OwnWork& work) const {
    for (const auto& [key, cache] : caches_) {
      work.look_at(key.first);
    }
  }
  void tell(Trial& trial) const {
    std::uint64_t most_fills_of_cache = 0;
    for (const auto& [key, cache] : caches_) {
      trial.seen = true;
      add(cache.statistics, trial.statistics);
      if (const std::uint64_t fills = cache.statistics[Counter::fills]; fills >= most_fills_of_cache) {
        most_fills_of_cache = fills;
        trial.policy = cache.policy;
        trial.fault_mode = cache.fault_mode;
        trial.budget_bytes = cache.statistics.budget_bytes;
      }
    }
    for (const auto& [page_bytes, fills] : fills_by_page_size_) {
      if (fills > 0 && (trial.page_bytes == 0 || fills > fills_by_page_size_.at(trial.page_bytes))) {
        trial.page_bytes = page_bytes;
      }
    }
    trial.one_page_size =
        std::ranges::count_if(fills_by_page_size_, [](const auto& entry) { return entry.second > 0; }) <= 1;
  }
  /// Regions come and go while their cache stays: to be called at each look.
  void remember_regions() {
    for (const auto& [key, cache] : caches_) {
      for (const ObservedRegion& region : cache.regions) {
        std::uint64_t& fills = fills_by_page_size_[region.page_size_bytes];
        fills = std::max(fills, region.statistics[Counter::fills]);
      }
    }
  }

 private:
  static void add(const Statistics& more, Statistics& sum) {
    for (std::size_t counter = 0; counter < counter_count; ++counter) {
      sum.counters[counter] += more.counters[counter];
    }
    for (std::size_t stage = 0; stage < stage_count; ++stage) {
      for (std::size_t bucket = 0; bucket < sum.stages[stage].buckets.size(); ++bucket) {
        sum.stages[stage].buckets[bucket] += more.stages[stage].buckets[bucket];
      }
    }
  }

  std::map<std::pair<pid_t, std::uint32_t>, ObservedCache> caches_;
  std::map<std::uint64_t, std::uint64_t> fills_by_page_size_;  ///< The most of any one region.
};

}  // namespace

InterruptsHeld::InterruptsHeld() {
  end_asked = 0;
  struct sigaction action{};
  action.sa_handler = [](int number) { end_asked = number; };
  for (std::size_t index = 0; index < ending_signals.size(); ++index) {
    ::sigaction(ending_signals[index], nullptr, &handlers_before[index]);
    if (handlers_before[index].sa_handler != SIG_IGN) {  // As nohup has it.
      ::sigaction(ending_signals[index], &action, nullptr);
    }
  }
}

InterruptsHeld::~InterruptsHeld() {
  for (std::size_t index = 0; index < ending_signals.size(); ++index) {
    ::sigaction(ending_signals[index], &handlers_before[index], nullptr);
  }
}

Trial run_trial(const std::vector<std::string>& command, const Settings& settings, double limit_seconds) {
  // A short command's cache may be gone soon.
  constexpr double closely_watched_seconds = 0.2;
  constexpr auto between_first_looks = std::chrono::milliseconds(1);
  constexpr auto between_looks = std::chrono::milliseconds(5);
  constexpr int looks_between_work = 8;
  const Clock::time_point start = Clock::now();
  Trial trial;
  SeenCaches caches;
  OwnWork work;
  std::optional<Clock::time_point> first_fetch;
  double work_before = 0;
  Child child(command, settings);
  for (int look = 0; !trial.finished && trial.seconds < limit_seconds; ++look) {
    std::this_thread::sleep_for(trial.seconds < closely_watched_seconds ? between_first_looks : between_looks);
    if (end_asked != 0) {
      throw Interrupted(end_asked);
    }
    caches.look_at(child.group());
    caches.remember_regions();
    if (!first_fetch && caches.has_fetched()) {
      caches.look_at_work(work);
      work_before = work.seconds();
      first_fetch = Clock::now();
    } else if (look % looks_between_work == 0) {
      caches.look_at_work(work);
    }
    trial.finished = child.look();
    trial.seconds = seconds_since(start);
  }
  if (!trial.finished) {
    caches.look_at_work(work);
  }
  trial.paged_seconds = first_fetch ? seconds_since(*first_fetch) : 0;
  trial.work_seconds = work.seconds() - work_before;
  if (!trial.finished) {
    child.end();
  }
  trial.exit_code = child.exit_code();
  trial.errors = child.errors();
  caches.tell(trial);
  return trial;
}

}  // namespace tiermap
