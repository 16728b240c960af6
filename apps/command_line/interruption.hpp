// What a program leaves behind when it is interrupted, or its memory fails: nothing that it had made and not finished.
#pragma once

#include <mutex>
#include <string>
#include <utility>

namespace tiermap {

/// Has `path` removed should the process be interrupted, or no longer.
void remove_if_interrupted(const std::string& path);
void keep_if_interrupted(const std::string& path) noexcept;

/// Ends the process with exit code 1, after removing what is noted, from any thread; returns before that.
void end_after_failure() noexcept;

/// While this is held no interruption removes anything or ends the process.
std::unique_lock<std::mutex> hold_interruptions();
/// As remove_if_interrupted(), by who holds interruptions.
void remove_if_interrupted(const std::string& path, const std::unique_lock<std::mutex>& held);

/// Makes what is at `path` by calling `make`, and has it removed should the process be interrupted: an interruption
/// finds either nothing made or the path noted. An empty path is not noted. Returns what `make` does.
template <typename Make>
auto make_uninterrupted(const std::string& path, Make&& make) {
  const std::unique_lock held = hold_interruptions();
  auto made = std::forward<Make>(make)();
  if (!path.empty()) {
    remove_if_interrupted(path, held);
  }
  return made;
}

/// Removes a file or folder, if it can be: an empty folder also where no descriptor is left to look into it.
void remove_made(const std::string& path) noexcept;

/// What is to be at `path` is called this until it is whole.
std::string partial_path(const std::string& path);

/// Gives what was made at `from` the name `to`: should the process be interrupted, that is removed. Throws StoreError
/// if something has the name.
void rename_made(const std::string& from, const std::string& to);

/// A file or folder that a program makes: gone with this, also when the process is interrupted, unless it is kept.
class MadePath {
 public:
  MadePath() = default;
  /// Of what is made there by now, or about to be.
  explicit MadePath(std::string path);
  ~MadePath();
  MadePath(MadePath&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  MadePath& operator=(MadePath&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  void keep() noexcept;
  /// As rename_made().
  void rename_to(const std::string& path);

 private:
  std::string path_;
};

/// From its first call on SIGINT, SIGTERM and SIGHUP, unless whoever started it ignores them, end the process with 128
/// plus the signal's number, after removing what Backings made and remove_if_interrupted() was told of. SIGBUS, which
/// says that mapped data cannot be read or written, does the same with exit code 1 and one line on standard error that
/// begins with `program`. SIGXFSZ and SIGPIPE end nothing: the call that would have made a file too large, or written
/// what nobody reads, fails. To be called before any thread is started and before the first cache is made; `program`
/// must stay.
void remove_scratch_on_interruption(const char* program);

}  // namespace tiermap
