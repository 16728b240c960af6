#include "observe/trace_recorder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "observe/publication_layout.hpp"
#include "platform/engine_thread.hpp"
#include "platform/own_descriptor.hpp"
#include "platform/process_start.hpp"
#include "platform/write_unless_closed.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t region_words = 1 + trace_region_words;

std::string with_process(std::string pattern) {
  const std::string number = std::to_string(::getpid());
  for (std::size_t place = pattern.find("%p"); place != std::string::npos; place = pattern.find("%p", place)) {
    pattern.replace(place, 2, number);
    place += number.size();
  }
  return pattern;
}

std::string remedy() {
  return ": remove it, or write %p into the name, which becomes the number of the process";
}

/// Whether the file is a trace that this very process is writing, or has written.
bool is_of_this_process(const std::string& path, const TraceHeader& ours) {
  const int file = above_standard_streams(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file < 0) {
    return false;
  }
  // Another cache may have made it this instant, and not yet written its header.
  constexpr int patience_milliseconds = 100;
  TraceHeader found;
  ssize_t got = 0;
  for (int wait = 0; wait < patience_milliseconds && got == 0; ++wait) {
    got = ::pread(file, &found, sizeof found, 0);
    if (got == 0) {
      ::usleep(1000);
    }
  }
  ::close(file);
  return got == static_cast<ssize_t>(sizeof found) && found.magic == TraceHeader::magic_value &&
         found.process == ours.process && found.process_start == ours.process_start;
}

void check_path(const std::string& path, const TraceHeader& header) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) {
      throw OptionError("trace file " + path + " is there, and no plain file: name another one");
    }
    if (!is_of_this_process(path, header)) {
      throw OptionError("trace file " + path + " exists" + remedy());
    }
    return;
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (errno != ENOENT || ::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    throw OptionError("trace file " + path + " cannot be made: " + std::strerror(errno) +
                      ": name one in a directory that can be written");
  }
}

}  // namespace

/// What exit() knows a recorder by. Never freed: a lock on all of them a child of fork() might find held for ever.
struct TraceRecorder::Life {
  std::mutex held;  ///< Guards the next.
  TraceRecorder* recorder = nullptr;
  const pid_t process = ::getpid();
  Life* before = nullptr;
  static constinit std::atomic<Life*> last;

  static Life* begin() {
    auto* const life = new Life;
    life->before = last.load();
    while (!last.compare_exchange_weak(life->before, life)) {
    }
    static std::atomic_flag registered;
    if (!registered.test_and_set()) {
      std::atexit(settle_all);  // Where it is refused (no memory), a trace may lack its last moment and its end.
    }
    return life;
  }
};
constinit std::atomic<TraceRecorder::Life*> TraceRecorder::Life::last{nullptr};

TraceRecorder::TraceRecorder(const std::string& pattern, std::uint64_t budget_bytes, std::string_view policy,
                             std::size_t words)
    : path_(with_process(pattern)), filling_(words), writing_(words) {
  header_.header_bytes = sizeof header_;
  header_.budget_bytes = budget_bytes;
  header_.process = ::getpid();
  header_.process_start = process_start_time(::getpid()).value_or(0);
  policy.copy(header_.policy.data(), header_.policy.size() - 1);
  check_path(path_, header_);
  life_ = Life::begin();
  thread_ = start_engine_thread("tiermap-trace", [this] { run(); });
  const std::lock_guard held(life_->held);
  life_->recorder = this;
}

TraceRecorder::~TraceRecorder() {
  {
    const std::lock_guard held(life_->held);
    life_->recorder = nullptr;
  }
  stop_.store(true);
  bell_.fetch_add(1);
  futex_wake_all(&bell_);
  thread_.join();
  if (file_ >= 0) {
    ::close(file_);
  }
}

void TraceRecorder::settle_all() noexcept {
  const pid_t process = ::getpid();
  for (Life* life = Life::last.load(); life != nullptr; life = life->before) {
    // Of a parent's recorder nothing came along but memory. One that is held is ending, or a signal's handler ends the
    // process while exit() is at it.
    if (life->process == process && life->held.try_lock()) {
      const std::lock_guard held(life->held, std::adopt_lock);
      if (life->recorder != nullptr) {
        life->recorder->settle();
      }
    }
  }
}

// The process is not to hang on a disk that does.
void TraceRecorder::settle() noexcept {
  constexpr int most_waits = 50;
  const std::uint32_t turn = settled_.load();
  settling_.store(true);
  bell_.fetch_add(1);
  futex_wake_all(&bell_);
  for (int wait = 0; wait < most_waits && settled_.load() == turn; ++wait) {
    futex_wait(&settled_, turn, 100'000'000);
  }
}

// False if there is no room. Called with the lock held.
bool TraceRecorder::append(const std::uint64_t* words, std::size_t count) noexcept {
  if (filling_.size() - filled_ < count) {
    return false;
  }
  std::copy_n(words, count, filling_.data() + filled_);
  filled_ += count;
  return true;
}

void TraceRecorder::record(const TraceRecord& record) noexcept {
  if (failed_.load(std::memory_order_relaxed)) {
    return;
  }
  bool ring = false;
  {
    const std::lock_guard held(lock_);
    const std::size_t before = filled_;
    const std::uint64_t word = record.word();
    if (record.region > TraceRecord::most_region || record.page > TraceRecord::most_page || !append(&word, 1)) {
      ++lost_;
    }
    has_accesses_ = has_accesses_ || record.kind != TraceKind::region_end;
    ring = before < filling_.size() / 2 && filled_ >= filling_.size() / 2;
  }
  if (ring) {
    bell_.fetch_add(1);
    futex_wake_one(&bell_);
  }
}

void TraceRecorder::begin_region(std::uint32_t region, std::uint64_t page_bytes, std::uint64_t length_bytes,
                                 const std::string& store_name, bool same_bytes) {
  if (region > TraceRecord::most_region) {
    return;  // What is recorded of it counts as lost.
  }
  TraceRegion described{page_bytes, length_bytes, {}};
  const std::size_t room = described.name.size() - 1;
  store_name.copy(described.name.data(), room, store_name.size() > room ? store_name.size() - room : 0);
  std::array<std::uint64_t, region_words> words{};
  words[0] = TraceRecord{TraceKind::region, same_bytes, region, trace_region_words}.word();
  std::memcpy(words.data() + 1, &described, sizeof described);
  while (!failed_.load()) {
    const std::uint32_t turn = room_.load();
    {
      const std::lock_guard held(lock_);
      if (append(words.data(), words.size())) {
        return;
      }
      has_accesses_ = true;  // Regions alone have filled the buffer: it has to be written all the same.
    }
    bell_.fetch_add(1);
    futex_wake_one(&bell_);
    futex_wait(&room_, turn, 100'000'000);
  }
}

void TraceRecorder::run() {
  constexpr std::int64_t tick_nanoseconds = 100'000'000;  // What a process that is killed may lose.
  while (!stop_.load()) {
    const std::uint32_t rung = bell_.load();
    const bool settles = settling_.exchange(false);
    write_turn(settles);
    if (settles) {
      settled_.fetch_add(1);
      futex_wake_all(&settled_);
    }
    if (!stop_.load()) {
      futex_wait(&bell_, rung, tick_nanoseconds);
    }
  }
  write_turn(true);
}

void TraceRecorder::write_turn(bool last) {
  std::size_t count = 0;
  std::size_t first_closing = 1;
  std::array<std::uint64_t, 2> closing{};
  {
    const std::lock_guard held(lock_);
    if (!has_accesses_ || failed_.load(std::memory_order_relaxed) || (has_end_ && filled_ == 0 && lost_ == 0)) {
      return;
    }
    count = std::exchange(filled_, 0);
    filling_.swap(writing_);
    const std::uint64_t missing = std::exchange(lost_, 0);
    const std::uint64_t lost = TraceRecord{TraceKind::lost, false, 0, missing}.word();
    if (missing > 0 && !last) {
      append(&lost, 1);
    }
    first_closing = missing > 0 ? 0 : 1;
    closing = {lost, TraceRecord{TraceKind::end}.word()};
  }
  room_.fetch_add(1);
  futex_wake_all(&room_);
  if (file_ < 0) {
    open();
  }
  take_back_end();
  write(writing_.data(), count * sizeof(std::uint64_t));
  if (last) {
    write(closing.data() + first_closing, (closing.size() - first_closing) * sizeof(std::uint64_t));
    has_end_ = !failed_.load();
  }
}

// The process went on, as after an exec() that failed.
void TraceRecorder::take_back_end() {
  if (std::exchange(has_end_, false)) {
    written_bytes_ -= sizeof(std::uint64_t);
    static_cast<void>(::lseek(file_, -static_cast<off_t>(sizeof(std::uint64_t)), SEEK_CUR));
  }
}

// The first cache of a process that has something to record gets the name as it is.
void TraceRecorder::open() {
  std::string path = path_;
  for (int number = 2; file_ < 0 && !failed_.load(); ++number) {
    file_ = above_standard_streams(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file_ < 0 && (errno != EEXIST || !is_of_this_process(path, header_))) {
      fail(path, errno);
    } else if (file_ < 0) {
      path = path_ + "." + std::to_string(number);
    }
  }
  path_ = path;
  write(&header_, sizeof header_);
}

void TraceRecorder::write(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  for (std::size_t done = 0; done < bytes && !failed_.load();) {
    const ssize_t written = ::write(file_, from + done, bytes - done);
    if (written < 0 && errno != EINTR) {
      fail(path_, errno);
    }
    done += written > 0 ? static_cast<std::size_t>(written) : 0;
    written_bytes_ += written > 0 ? static_cast<std::uint64_t>(written) : 0;
  }
}

// What has been written stays a trace, of whole records. Without a header it is none, and would be in the way of the
// process's next cache.
void TraceRecorder::fail(const std::string& path, int error) {
  failed_.store(true);
  if (file_ >= 0 && written_bytes_ < sizeof header_) {
    static_cast<void>(::unlink(path.c_str()) == 0);
  } else if (file_ >= 0) {
    const std::uint64_t whole = written_bytes_ / sizeof(std::uint64_t) * sizeof(std::uint64_t);
    static_cast<void>(::ftruncate(file_, static_cast<off_t>(whole)) == 0);
  }
  const std::string why =
      error == EEXIST ? " exists" + remedy() : std::string(" cannot be written: ") + std::strerror(error);
  tell_unless_closed("tiermap: trace file " + path + why + "; nothing more is recorded\n");
}

}  // namespace tiermap
