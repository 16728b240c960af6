// Memory that processes of one node share, and by which it is told that they are on one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "platform/address_range.hpp"
#include "store/file_descriptor.hpp"

namespace tiermap {

/// The same for processes that can share memory: those that call this node `host`, run on one kernel since it was
/// started, see each other's numbers and belong to one user. Throws PlatformError.
std::string node_identity(const std::string& host);

/// Zeros, in a file without a name that cannot be made shorter: it is gone with the last process that has it, however
/// that ends, and children that a process forks do not have it. Movable.
class NodeMemory {
 public:
  NodeMemory() = default;
  /// Takes up room only where it is written. Throws PlatformError.
  static NodeMemory make(std::uint64_t bytes);
  /// What another process made, where address() says. Throws PlatformError.
  static NodeMemory open(const std::string& address, std::uint64_t bytes);

  /// Of who made it, until close_file().
  std::string address() const;
  /// From now on nobody else can open it.
  void close_file() { file_ = FileDescriptor(); }
  std::span<std::byte> bytes() const noexcept { return {mapped_.data(), mapped_.size()}; }

 private:
  NodeMemory(FileDescriptor file, std::uint64_t bytes);

  FileDescriptor file_;
  AddressRange mapped_;
};

}  // namespace tiermap
