// The file in which a run writes down a number for each point: its cluster, or its class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "command_line/backing.hpp"
#include "command_line/ranks.hpp"
#include "points/point_memory.hpp"

namespace tiermap {

/// Four bytes for each point. One process alone maps the file itself. Of several ranks each maps a scratch file of its
/// own, as long as the file and empty but for its points, and in the end puts these into the file: two that write
/// pages of one file would overwrite each other's where their parts meet.
class PointNumbers {
 public:
  /// By all ranks, none of which looks any more whether the file is there: the first one makes it. Without a `url`
  /// there is none, and nothing but scratch files. `program` and `what` are parts of their names. Throws StoreError and
  /// OptionError as Backing does.
  PointNumbers(Ranks& ranks, const std::string& program, const std::string& what, const std::string& url,
               std::uint64_t points);

  /// To be mapped.
  const Backing& mapped() const noexcept { return mapped_; }
  /// By all ranks, each with the points that are its own, once what it has mapped is saved. When it returns all of them
  /// are in the file.
  void put(VectorRange points);
  /// What was written, to be read past the mapping: the file, or scratch that has this rank's points alone.
  Store& cold_store();
  const std::string& url() const noexcept { return whole().url(); }
  /// Does not remove the file after all.
  void keep();

 private:
  const Backing& whole() const noexcept { return file_.has_value() ? *file_ : mapped_; }
  Backing& whole() noexcept { return file_.has_value() ? *file_ : mapped_; }

  Ranks& ranks_;
  std::optional<Backing> file_;  ///< Of several ranks that were told to make one.
  Backing mapped_;
};

}  // namespace tiermap
