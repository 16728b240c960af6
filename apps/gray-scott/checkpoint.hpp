// Checkpoints: one HDF5 file for each, with the datasets /u and /v, and /simulation, which says of what.
//
// A file has its name only once all of it is on the disk: until then ".partial" is behind it. So whenever the program
// is killed, what is there by name is whole.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "command_line/interruption.hpp"
#include "command_line/memory_system.hpp"
#include "gray-scott/grid.hpp"
#include "gray-scott/plane_pass.hpp"
#include "gray-scott/reaction.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {

/// Which state it is.
struct CheckpointState {
  std::uint64_t size = 0;  ///< Cells along each edge.
  bool doubles = false;    ///< Else floats.
  std::uint64_t step = 0;
  Reaction reaction;

  std::uint64_t cells() const { return size * size * size; }
  std::uint64_t element_bytes() const { return doubles ? sizeof(double) : sizeof(float); }
};

struct CheckpointOptions {
  std::string folder;       ///< Empty: there are none.
  std::string tiers;        ///< A YAML file of tiers in front of them; empty for none.
  bool background = false;  ///< Else they are written between the steps, by plain writes.
};

/// folder/step_00000010.h5
std::string checkpoint_path(const std::string& folder, std::uint64_t step);
/// Those of a folder, by step.
std::map<std::uint64_t, std::string> finished_checkpoints(const std::string& folder);
/// Of a path that names a folder: its checkpoint of the highest step. Throws OptionError if there is none.
std::string find_checkpoint(const std::string& path);
/// Throws StoreError for what is no checkpoint of this program.
CheckpointState read_checkpoint_state(const std::string& path);
/// The URL of a dataset of a checkpoint that is there.
std::string dataset_url(const std::string& path, const std::string& name);

/// A file that is to be a checkpoint, and is none unless finish() is called.
class UnfinishedCheckpoint {
 public:
  /// Throws StoreError (ENOSPC) if the folder has not the room.
  UnfinishedCheckpoint(const CheckpointOptions& options, const CheckpointState& state);
  /// Of /u or /v, that is to be made, behind the tiers if there are any.
  static std::string url(const CheckpointOptions& options, const CheckpointState& state, const std::string& name);
  /// Once everything in it was flushed and is closed.
  void finish();

 private:
  const std::string folder_;
  const std::string path_;
  const std::string partial_path_;
  MadePath made_;
};

/// By all ranks: written by plain writes, the planes of one rank after those of the one before, as HDF5's library lets
/// one program at a time write a file; finished when this returns.
template <typename T>
void write_checkpoint(const CheckpointOptions& options, const CheckpointState& state, const Grid<T>& grid,
                      Ranks& ranks);

/// A checkpoint as two vectors, whose pages are written in the background once their planes are done.
template <typename T>
class CheckpointVectors {
 public:
  CheckpointVectors(const CheckpointOptions& options, const CheckpointState& state, Cache& cache,
                    std::uint64_t page_size_bytes);
  T* u_plane(std::uint64_t z) const { return u_.data() + z * plane_cells_; }
  T* v_plane(std::uint64_t z) const { return v_.data() + z * plane_cells_; }
  /// All planes are about to be written, from this one on and around.
  void begin(std::uint64_t first_plane);
  /// So many of them have been. Throws if they cannot be written.
  void passed(std::uint64_t planes);
  /// Waits until all of it is durable, and gives it its name. What cannot be written leaves memory.
  void finish();

 private:
  void require_room();
  void drop();
  static Vector<T> make(const std::string& url, std::uint64_t count, Cache& cache, std::uint64_t page_size_bytes);

  const std::uint64_t size_;
  const std::uint64_t plane_cells_;
  UnfinishedCheckpoint file_;
  Vector<T> u_;
  Vector<T> v_;
  const std::uint64_t window_bytes_;
  std::uint64_t errors_ = 0;  ///< Of writes, as far as they are known.
  std::unique_ptr<PlanePass> pass_u_;
  std::unique_ptr<PlanePass> pass_v_;
};

}  // namespace tiermap
