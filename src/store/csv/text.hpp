// The text of a table: a file, or a file that lies in a store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "store/file_open.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// As it was when it was opened. Thread-safe: nothing changes after the constructor.
class CsvText {
 public:
  explicit CsvText(OpenedFile file);
  explicit CsvText(std::shared_ptr<Store> store);

  std::uint64_t bytes() const noexcept { return state_.bytes; }
  /// Fewer come back only at the end; otherwise a negative errno value.
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) const;
  /// Whether it is another one by now: by its size, and when a file was written to. Of what a store holds it is the
  /// store that fails.
  bool changed() const noexcept { return state() != state_; }

  /// How much it is best to read at once of a run of `bytes` bytes: of a store, where each read may take long, all of
  /// it as far as there is memory for that.
  std::size_t piece_bytes(std::uint64_t bytes) const noexcept;

 private:
  struct State {
    std::uint64_t bytes = 0;
    std::int64_t written_nanoseconds = 0;
    bool operator==(const State&) const = default;
  };
  /// Zeros if it cannot be said.
  State state() const noexcept;

  std::shared_ptr<Store> store_;
  std::optional<OpenedFile> file_;
  State state_;
};

}  // namespace tiermap
