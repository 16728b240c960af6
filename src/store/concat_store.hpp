// Many files, or parts of files, as one range.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/file_open.hpp"
#include "store/shared_flush.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Of fixed size: each part has the length it had when the store was opened. Of a part whose file is cut afterwards the
/// rest of the page that it ends in reads as zeros, pages behind cannot be read, and the parts behind it stay where
/// they are. Thread-safe: but for flushes_ nothing changes after the constructor.
class ConcatStore final : public Store {
 public:
  struct Part {
    std::string path;
    std::uint64_t offset = 0;  ///< First byte in the file; any.
    bool has_bytes = false;
    std::uint64_t bytes = 0;  ///< Length; without has_bytes the part goes to the end of the file.
  };

  /// Throws StoreError: a file that cannot be opened or is shorter than its part; when writable, two parts that overlap
  /// in one file, since two pages would then be the same bytes; more files than may be open.
  ConcatStore(const std::vector<Part>& parts, bool writable, std::string name, const FileOptions& options);

  std::uint64_t size_bytes() const override { return size_; }
  bool writable() const override { return writable_; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// After a failure every later flush() fails alike: the kernel has dropped what it could not write.
  int flush() override;
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override;
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override;
  std::uint32_t direct_alignment() const override { return alignment_; }
  std::uint32_t max_reads_in_flight() const override { return options_.max_reads_in_flight; }
  std::uint32_t max_writes_in_flight() const override { return options_.max_writes_in_flight; }
  std::string name() const override { return name_; }
  std::optional<ElementLayout> element_layout() const override { return elements_; }
  /// Before anybody else has it.
  void describe_elements(ElementLayout elements) { elements_ = std::move(elements); }

 private:
  /// A part that is open. `start` is where it begins in the store.
  struct OpenPart {
    DirectFile file;
    std::uint64_t start = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
  };

  void open_part(const Part& part);
  void refuse_overlaps() const;
  const OpenPart& part_at(std::uint64_t offset) const noexcept;
  bool locate(std::uint64_t offset, std::uint64_t bytes, std::uint64_t alignment, Extent& extent) const noexcept;

  std::vector<OpenPart> parts_;  ///< By `start`, without gaps and without empty ones.
  const bool writable_;
  const std::string name_;
  const FileOptions options_;
  std::optional<ElementLayout> elements_;
  std::uint64_t size_ = 0;
  std::uint32_t alignment_ = 1;  ///< The largest of the parts.
  SharedFlush flushes_;
};

}  // namespace tiermap
