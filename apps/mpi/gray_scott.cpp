// tiermap-gray-scott-mpi: what tiermap-gray-scott computes, as one writes it with MPI where everything fits into the
// memory of the ranks together. To compare with.
#include <mpi.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "gray-scott/initial_state.hpp"
#include "gray-scott/reaction.hpp"
#include "gray-scott/simulation_check.hpp"
#include "mpi/ranks.hpp"
#include "tiermap/error.hpp"

namespace tiermap::mpi {
namespace {

struct Options {
  std::uint64_t size = 128;
  std::uint64_t steps = 100;
  std::uint64_t seed = 1;
  std::string result;
};

/// This rank's planes, u and v of each, between the last one of the rank below and the first one of the rank above.
class Slab {
 public:
  Slab(Ranks& ranks, const Options& options)
      : ranks_(ranks),
        size_(options.size),
        planes_(partition(size_, static_cast<std::uint64_t>(ranks.rank), static_cast<std::uint64_t>(ranks.ranks))),
        below_((ranks.rank + ranks.ranks - 1) % ranks.ranks),
        above_((ranks.rank + 1) % ranks.ranks),
        now_((planes_.count + 2) * plane_cells()),
        next_(now_.size()) {
    const InitialState initial(size_, options.seed);
    for (std::uint64_t plane = 0; plane < planes_.count; ++plane) {
      initial.fill_plane(planes_.first + plane, u_plane(plane + 1), u_plane(plane + 1) + size_ * size_);
    }
  }

  /// Planes inside are made while those beside them are on their way.
  void step(const Reaction& reaction) {
    std::array<MPI_Request, 4> requests{};
    receive(0, below_, upwards, requests[0]);
    receive(planes_.count + 1, above_, downwards, requests[1]);
    send(planes_.count, above_, upwards, requests[2]);
    send(1, below_, downwards, requests[3]);
    for (std::uint64_t plane = 2; plane < planes_.count; ++plane) {
      make_plane(plane, reaction);
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    make_plane(1, reaction);
    if (planes_.count > 1) {
      make_plane(planes_.count, reaction);
    }
    std::swap(now_, next_);
  }

  /// Of all planes, on rank 0.
  Survey survey() {
    SlabSurvey found = survey_planes<float>(size_, planes_, [this](std::uint64_t z, float* u, float* v) {
      const float* const plane = u_plane(z - planes_.first + 1);
      std::copy_n(plane, size_ * size_, u);
      std::copy_n(plane + size_ * size_, size_ * size_, v);
    });
    std::vector<double> sums;
    for (const SpeciesSums& plane : found.plane_sums) {
      sums.insert(sums.end(), {plane.u, plane.v});
    }
    sums = gather(ranks_, sums);
    found.plane_sums.clear();
    for (std::size_t plane = 0; plane < sums.size(); plane += 2) {
      found.plane_sums.push_back({sums[plane], sums[plane + 1]});
    }
    found.checksum = sum(found.checksum);
    return whole_survey(found);
  }

  /// As tiermap-gray-scott --keep leaves its grid.
  void write(const std::string& path) const {
    MPI_File file = MPI_FILE_NULL;
    if (MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, MPI_INFO_NULL,
                      &file) != MPI_SUCCESS) {
      throw OptionError(fmt::format("{} cannot be made: name a new file by --result", path));
    }
    for (std::uint64_t plane = 0; plane < planes_.count; ++plane) {
      MPI_File_write_at(file, static_cast<MPI_Offset>((planes_.first + plane) * plane_cells() * sizeof(float)),
                        now_.data() + (plane + 1) * plane_cells(), static_cast<int>(plane_cells()), MPI_FLOAT,
                        MPI_STATUS_IGNORE);
    }
    MPI_File_close(&file);
  }

 private:
  static constexpr int upwards = 0;
  static constexpr int downwards = 1;

  std::uint64_t plane_cells() const { return 2 * size_ * size_; }
  float* u_plane(std::uint64_t plane) { return now_.data() + plane * plane_cells(); }
  void receive(std::uint64_t plane, int from, int tag, MPI_Request& request) {
    MPI_Irecv(u_plane(plane), static_cast<int>(plane_cells()), MPI_FLOAT, from, tag, MPI_COMM_WORLD, &request);
  }
  void send(std::uint64_t plane, int to, int tag, MPI_Request& request) {
    MPI_Isend(u_plane(plane), static_cast<int>(plane_cells()), MPI_FLOAT, to, tag, MPI_COMM_WORLD, &request);
    ranks_.count_message(to, plane_cells() * sizeof(float));
  }

  void make_plane(std::uint64_t plane, const Reaction& reaction) {
    const float* const here = u_plane(plane);
    float* const made = next_.data() + plane * plane_cells();
    const std::uint64_t v = size_ * size_;
    for (std::uint64_t y = 0; y < size_; ++y) {
      const auto stencil = [&](const float* cells) {
        return RowStencil<float>{cells + y * size_, cells + (y + size_ - 1) % size_ * size_,
                                 cells + (y + 1) % size_ * size_, cells - plane_cells() + y * size_,
                                 cells + plane_cells() + y * size_};
      };
      step_row(stencil(here), stencil(here + v), size_, reaction, made + y * size_, made + v + y * size_);
    }
  }

  Ranks& ranks_;
  const std::uint64_t size_;
  const VectorRange planes_;
  const int below_;
  const int above_;
  std::vector<float> now_;
  std::vector<float> next_;
};

nlohmann::ordered_json simulate(Ranks& ranks, const Options& options) {
  if (static_cast<std::uint64_t>(ranks.ranks) > options.size) {
    throw OptionError(
        fmt::format("{} ranks cannot share {} planes: start {} at most", ranks.ranks, options.size, options.size));
  }
  Slab slab(ranks, options);
  const Reaction reaction;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (std::uint64_t step = 0; step < options.steps; ++step) {
    slab.step(reaction);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double seconds = MPI_Wtime() - begin;
  const Survey found = slab.survey();
  if (!options.result.empty()) {
    slab.write(options.result);
  }
  const std::uint64_t cells = options.size * options.size * options.size;
  return {{"workload", "gray-scott-mpi"},
          {"seconds", seconds},
          {"operations", cells * options.steps},
          {"bytes", 2 * cells * sizeof(float)},
          {"size", options.size},
          {"last_step", options.steps},
          {"sum_u", found.sums.u},
          {"sum_v", found.sums.v},
          {"checksum", fmt::format("{:016x}", found.checksum)}};
}

}  // namespace
}  // namespace tiermap::mpi

int main(int argc, char** argv) {
  const char* const name = "tiermap-gray-scott-mpi";
  CLI::App app("Computes what tiermap-gray-scott does, in memory, by MPI, to be compared with.", name);
  tiermap::mpi::Options options;
  app.add_option("--size", options.size, "Cells along each edge (default: 128)")->check(CLI::Range(8, 1024));
  app.add_option("--steps", options.steps, "Steps to make (default: 100)")->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--seed", options.seed, "Of the initial state (default: 1)");
  app.add_option("--result", options.result, "File to be made: the cells as they are at the end");
  return tiermap::mpi::run(name, app, argc, argv,
                           [&](tiermap::mpi::Ranks& ranks) { return tiermap::mpi::simulate(ranks, options); });
}
