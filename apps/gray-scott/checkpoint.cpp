#include "gray-scott/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::string_view name_begin = "step_";
constexpr std::string_view name_end = ".h5";
/// What /simulation has.
using SimulationNumbers = std::array<double, 6>;

/// As a part of a URL, which gives some characters a meaning.
std::string encoded(std::string_view text) {
  std::string code;
  for (const char character : text) {
    const bool plain = (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
                       (character >= '0' && character <= '9') || std::string_view("/._-").find(character) != text.npos;
    code += plain ? std::string(1, character) : fmt::format("%{:02X}", static_cast<unsigned char>(character));
  }
  return code;
}

void make_durable(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int error = descriptor < 0 || ::fsync(descriptor) != 0 ? errno : 0;
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  if (error != 0) {
    throw StoreError(error, fmt::format("{} cannot be made durable ({}): name another folder by --checkpoints", path,
                                        std::generic_category().message(error)));
  }
}

[[noreturn]] void refuse_checkpoint(const std::string& path, const std::string& why) {
  throw StoreError(EINVAL, fmt::format("{} is no checkpoint of tiermap-gray-scott: {}", path, why));
}

}  // namespace

std::string checkpoint_path(const std::string& folder, std::uint64_t step) {
  return fmt::format("{}/{}{:08}{}", folder, name_begin, step, name_end);
}

std::map<std::uint64_t, std::string> finished_checkpoints(const std::string& folder) {
  std::map<std::uint64_t, std::string> finished;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::uint64_t step = 0;
    if (name.starts_with(name_begin) && name.ends_with(name_end)) {
      const char* const end = name.data() + name.size() - name_end.size();
      const auto number = std::from_chars(name.data() + name_begin.size(), end, step);
      if (number.ec == std::errc{} && number.ptr == end) {  // No copy that somebody has put aside.
        finished.emplace(step, entry.path().string());
      }
    }
  }
  return finished;
}

std::string find_checkpoint(const std::string& path) {
  if (!std::filesystem::is_directory(path)) {
    return path;
  }
  const std::map<std::uint64_t, std::string> finished = finished_checkpoints(path);
  if (finished.empty()) {
    throw OptionError(fmt::format("{} has no finished checkpoint: name a folder that has one, or its file", path));
  }
  return finished.rbegin()->second;
}

std::string dataset_url(const std::string& path, const std::string& name) {
  return fmt::format("hdf5:{}:/{}", encoded(path), name);
}

CheckpointState read_checkpoint_state(const std::string& path) {
  CheckpointState state;
  for (const char* name : {"u", "v"}) {
    const std::optional<ElementLayout> there =
        open_store(dataset_url(path, name), OpenMode::read_only)->element_layout();
    const bool is_cube =
        there && there->shape.size() == 3 && there->shape[1] == there->shape[0] && there->shape[2] == there->shape[0];
    if (!is_cube || there->kind != 'f' || there->swapped || (there->bytes != 4 && there->bytes != 8)) {
      refuse_checkpoint(path, fmt::format("/{} is not a cube of native floats or doubles", name));
    }
    if (state.size != 0 && (state.size != there->shape[0] || state.doubles != (there->bytes == 8))) {
      refuse_checkpoint(path, "/u and /v differ in shape or type");
    }
    state.size = there->shape[0];
    state.doubles = there->bytes == 8;
  }
  const std::unique_ptr<Store> simulation = open_store(dataset_url(path, "simulation"), OpenMode::read_only);
  SimulationNumbers numbers{};
  if (simulation->size_bytes() != sizeof(numbers)) {
    refuse_checkpoint(path, fmt::format("/simulation has {} bytes, not {}", simulation->size_bytes(), sizeof(numbers)));
  }
  read_fully(*simulation, numbers.data(), sizeof(numbers), 0);
  constexpr double most_steps = 1e15;
  if (!(numbers[0] >= 0 && numbers[0] <= most_steps) || std::floor(numbers[0]) != numbers[0]) {
    refuse_checkpoint(path, fmt::format("/simulation says that it is of step {}", numbers[0]));
  }
  state.step = static_cast<std::uint64_t>(numbers[0]);
  state.reaction = {numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
  return state;
}

UnfinishedCheckpoint::UnfinishedCheckpoint(const CheckpointOptions& options, const CheckpointState& state)
    : folder_(options.folder), path_(checkpoint_path(options.folder, state.step)), partial_path_(partial_path(path_)) {
  std::filesystem::remove(partial_path_);  // Of a run that was killed.
  const std::uint64_t bytes = 2 * state.cells() * state.element_bytes();
  if (const std::uint64_t room = std::filesystem::space(options.folder).available; room < bytes) {
    throw StoreError(ENOSPC, fmt::format("{} has room for {}, and a checkpoint takes {}: free some, or choose another "
                                         "folder by --checkpoints",
                                         options.folder, format_size_rounded(room), format_size_rounded(bytes)));
  }
  made_ = MadePath(partial_path_);
  const Reaction& reaction = state.reaction;
  const SimulationNumbers numbers = {static_cast<double>(state.step),
                                     reaction.feed,
                                     reaction.kill,
                                     reaction.diffusion_u,
                                     reaction.diffusion_v,
                                     reaction.time_step};
  const std::unique_ptr<Store> store =
      open_store(dataset_url(partial_path_, "simulation") + "?type=float64", OpenMode::create, sizeof(numbers));
  write_fully(*store, numbers.data(), sizeof(numbers), 0);
}

std::string UnfinishedCheckpoint::url(const CheckpointOptions& options, const CheckpointState& state,
                                      const std::string& name) {
  const std::string url = fmt::format("{0}?type=float{1}&shape={2},{2},{2}",
                                      dataset_url(partial_path(checkpoint_path(options.folder, state.step)), name),
                                      8 * state.element_bytes(), state.size);
  return options.tiers.empty() ? url : fmt::format("tiered:{}?store={}", encoded(options.tiers), encoded(url));
}

void UnfinishedCheckpoint::finish() {
  make_durable(partial_path_);
  std::filesystem::rename(partial_path_, path_);
  made_.keep();
  make_durable(folder_);
}

namespace {

/// The grid's own planes into both datasets; the first rank makes them.
template <typename T>
void write_planes(const CheckpointOptions& options, const CheckpointState& state, const Grid<T>& grid, OpenMode mode) {
  const std::uint64_t plane_cells = state.size * state.size;
  // The kernel is not to be handed memory that is not there yet.
  std::vector<T> plane(plane_cells);
  for (const bool is_u : {true, false}) {
    const std::unique_ptr<Store> store =
        open_store(UnfinishedCheckpoint::url(options, state, is_u ? "u" : "v"), mode, state.cells() * sizeof(T));
    const std::uint64_t end = grid.planes().first + grid.planes().count;
    for (std::uint64_t z = grid.planes().first; z < end; ++z) {
      std::copy_n(is_u ? grid.u_plane(z) : grid.v_plane(z), plane_cells, plane.data());
      write_fully(*store, plane.data(), plane_cells * sizeof(T), z * plane_cells * sizeof(T));
    }
    const int settled = store->settle();
    if (const int result = settled != 0 ? settled : store->flush(); result != 0) {
      throw StoreError(-result, fmt::format("{} cannot be written ({}): choose another folder by --checkpoints",
                                            store->name(), std::generic_category().message(-result)));
    }
  }
}

}  // namespace

template <typename T>
void write_checkpoint(const CheckpointOptions& options, const CheckpointState& state, const Grid<T>& grid,
                      Ranks& ranks) {
  std::optional<UnfinishedCheckpoint> file;
  if (ranks.is_first()) {
    file.emplace(options, state);
  }
  for (std::uint32_t turn = 0; turn < ranks.count(); ++turn) {
    if (turn == ranks.rank()) {
      write_planes(options, state, grid, turn == 0 ? OpenMode::create : OpenMode::read_write);
    }
    ranks.barrier();
  }
  if (file.has_value()) {
    file->finish();
  }
  ranks.barrier();
}

template <typename T>
CheckpointVectors<T>::CheckpointVectors(const CheckpointOptions& options, const CheckpointState& state, Cache& cache,
                                        std::uint64_t page_size_bytes)
    : size_(state.size),
      plane_cells_(state.size * state.size),
      file_(options, state),
      u_(make(UnfinishedCheckpoint::url(options, state, "u"), state.cells(), cache, page_size_bytes)),
      v_(make(UnfinishedCheckpoint::url(options, state, "v"), state.cells(), cache, page_size_bytes)),
      window_bytes_(std::max(cache.budget_bytes() / 32, page_size_bytes)) {}

template <typename T>
Vector<T> CheckpointVectors<T>::make(const std::string& url, std::uint64_t count, Cache& cache,
                                     std::uint64_t page_size_bytes) {
  VectorOptions options;
  options.cache = &cache;
  options.page_size_bytes = page_size_bytes;
  return Vector<T>::create(url, count, options);
}

template <typename T>
void CheckpointVectors<T>::begin(std::uint64_t first_plane) {
  const TransactionOptions options{.prefetch = true, .window_bytes = window_bytes_};
  const auto pass = [&](Vector<T>& vector) {
    return new PlanePass(
        vector.template transaction<PlanePass>(Intent::write, plane_cells_, first_plane, size_, options));
  };
  pass_u_.reset(pass(u_));
  pass_v_.reset(pass(v_));
  passed(0);
}

template <typename T>
void CheckpointVectors<T>::passed(std::uint64_t planes) {
  require_room();
  pass_u_->passed(planes);
  pass_v_->passed(planes);
}

/// Steps with hardly any memory beside pages that cannot be written would take for ever.
template <typename T>
void CheckpointVectors<T>::require_room() {
  std::uint64_t errors = 0;
  for (Vector<T>* vector : {&u_, &v_}) {
    errors += vector->region().statistics()[Counter::write_errors];
  }
  if (std::exchange(errors_, errors) < errors) {
    u_.sync();
    v_.sync();
  }
}

template <typename T>
void CheckpointVectors<T>::finish() {
  pass_u_.reset();
  pass_v_.reset();
  try {
    u_.sync();
    v_.sync();
  } catch (...) {
    drop();
    throw;
  }
  u_.close();
  v_.close();
  file_.finish();
}

/// The cells are computed in the same memory, and have hardly any beside pages that cannot be written.
template <typename T>
void CheckpointVectors<T>::drop() {
  for (Vector<T>* vector : {&u_, &v_}) {
    try {
      vector->region().discard({0, vector->region().size()});
    } catch (const Error&) {  // In fault mode kernel they are the kernel's.
    }
  }
}

template void write_checkpoint(const CheckpointOptions&, const CheckpointState&, const Grid<float>&, Ranks&);
template void write_checkpoint(const CheckpointOptions&, const CheckpointState&, const Grid<double>&, Ranks&);
template class CheckpointVectors<float>;
template class CheckpointVectors<double>;

}  // namespace tiermap
