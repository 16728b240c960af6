// The same work in several processes at once, which begin together and tell what came of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tiermap {

/// Memory that is filled with zeros, and that processes made by fork() share.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();
  void* data() const noexcept { return data_; }

 private:
  void* data_;
  std::size_t bytes_;
};

/// Calls work(index, wait_for_all) for every index below `processes`, each in a process of its own, and waits for them
/// all; one process is the caller itself. `wait_for_all` returns when all have called it, and is to be called once.
/// `meanwhile` is called again and again while the caller waits for others. Throws std::runtime_error with the first
/// failure's message if one of them failed: then none waits for it.
void run_processes(std::uint32_t processes,
                   const std::function<void(std::uint32_t index, const std::function<void()>& wait_for_all)>& work,
                   const std::function<void()>& meanwhile);

}  // namespace tiermap
