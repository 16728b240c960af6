// Writes what an eviction policy is told to a file, for `tiermap replay`. Who tells never waits for the file: records
// are appended to one of two buffers while a thread of the recorder's own writes the other. What finds both full is
// counted, and the file says where it is missing.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "observe/trace_file.hpp"
#include "platform/futex.hpp"

namespace tiermap {

class TraceRecorder {
 public:
  static constexpr std::size_t buffer_words = 128 << 10;  ///< Of each of the two.

  /// `pattern` names the file: `%p` in it becomes the number of the process; where the process has a trace of that name
  /// already, of another cache, a number follows. The file is made when there is something to record. Throws
  /// OptionError if it cannot be, or exists and is none of this process's traces.
  TraceRecorder(const std::string& pattern, std::uint64_t budget_bytes, std::string_view policy,
                std::size_t words = buffer_words);
  /// Writes what is left. Nobody may record any more.
  ~TraceRecorder();
  /// At the end of the process, which may come before that of its caches: what this process's recorders have is
  /// written, and the end behind it. They go on where the process does. Called by exit(); by who ends it otherwise.
  static void settle_all() noexcept;
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  /// Appends a record; the caller sees to the order (handler).
  void record(const TraceRecord& record) noexcept;
  /// To be called before the region's first record, not by a thread that serves faults: waits for room. With
  /// `same_bytes` it is the region whose number is one less in pages of another size; that one is described before.
  void begin_region(std::uint32_t region, std::uint64_t page_bytes, std::uint64_t length_bytes,
                    const std::string& store_name, bool same_bytes = false);

 private:
  struct Life;

  void settle() noexcept;
  bool append(const std::uint64_t* words, std::size_t count) noexcept;
  void run();
  void write_turn(bool last);
  void take_back_end();
  void open();
  void write(const void* data, std::size_t bytes);
  void fail(const std::string& path, int error);

  std::string path_;
  TraceHeader header_;
  FutexLock lock_;  ///< Guards the next five. Held for a few instructions, by nobody who could be interrupted.
  std::vector<std::uint64_t> filling_;
  std::vector<std::uint64_t> writing_;  ///< The writer's own while it is at work.
  std::size_t filled_ = 0;
  std::uint64_t lost_ = 0;  ///< Since the last record that was kept.
  bool has_accesses_ = false;
  std::atomic<std::uint32_t> bell_{0};     ///< Rung when there is much to write, and at the end.
  std::atomic<std::uint32_t> room_{0};     ///< Counts the buffers that were taken to be written.
  std::atomic<std::uint32_t> settled_{0};  ///< Counts the ends that settle() has asked for.
  std::atomic<bool> settling_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};  ///< The file takes no more.
  int file_ = -1;
  std::uint64_t written_bytes_ = 0;
  bool has_end_ = false;  ///< The file's last record is its end.
  Life* life_ = nullptr;
  std::thread thread_;
};

}  // namespace tiermap
