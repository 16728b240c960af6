// tiermap-dbscan-mpi: the clusters that tiermap-dbscan finds, where everything fits into the memory of the ranks
// together, and points, halos and labels go from rank to rank by MPI_Alltoallv. To compare with.
#include <mpi.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "command_line/backing.hpp"
#include "command_line/plain_bytes.hpp"
#include "dbscan/rank_clusters.hpp"
#include "mpi/ranks.hpp"
#include "tiermap/error.hpp"

namespace tiermap::mpi {
namespace {

struct Options {
  std::string points;
  std::string labels;
  std::uint32_t dimensions = 3;
  double reach = 8;
  std::uint32_t neighbours = 64;
};

class MpiRowExchange final : public RowExchange {
 public:
  explicit MpiRowExchange(Ranks& ranks) : ranks_(ranks) {}
  std::uint32_t rank() const override { return static_cast<std::uint32_t>(ranks_.rank); }
  std::uint32_t ranks() const override { return static_cast<std::uint32_t>(ranks_.ranks); }

  void exchange(const Rows& rows) override {
    const std::vector<int> out = in_ints(rows.counts);
    std::vector<int> in(out.size());
    MPI_Alltoall(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, MPI_COMM_WORLD);
    const std::vector<int> out_places = places_of(out);
    const std::vector<int> in_places = places_of(in);
    const std::uint64_t all = std::reduce(in.begin(), in.end(), std::uint64_t{0});
    rows.expect(all);

    std::vector<std::byte> sent(std::reduce(out.begin(), out.end(), std::uint64_t{0}) * rows.row_bytes);
    std::vector<int> next = out_places;
    rows.produce([&](std::uint32_t to, const void* row) {
      std::memcpy(sent.data() + static_cast<std::uint64_t>(next[to]++) * rows.row_bytes, row, rows.row_bytes);
    });
    for (int to = 0; to < ranks_.ranks; ++to) {
      ranks_.count_message(to, sizeof(int) + rows.counts[static_cast<std::size_t>(to)] * rows.row_bytes);
    }
    std::vector<std::byte> received(all * rows.row_bytes);
    MPI_Datatype row = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(static_cast<int>(rows.row_bytes), MPI_BYTE, &row);
    MPI_Type_commit(&row);
    MPI_Alltoallv(sent.data(), out.data(), out_places.data(), row, received.data(), in.data(), in_places.data(), row,
                  MPI_COMM_WORLD);
    MPI_Type_free(&row);
    std::vector<std::byte>().swap(sent);
    const std::byte* at = received.data();
    for (std::uint32_t from = 0; from < in.size(); ++from) {
      for (int count = in[from]; count > 0; --count, at += rows.row_bytes) {
        rows.consume(from, at);
      }
    }
  }

  std::vector<std::uint64_t> gather(std::vector<std::uint64_t> own) override {
    const int count = static_cast<int>(own.size());
    std::vector<int> counts(ranks());
    MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, MPI_COMM_WORLD);
    const std::vector<int> places = places_of(counts);
    std::vector<std::uint64_t> all(std::reduce(counts.begin(), counts.end(), std::uint64_t{0}));
    MPI_Allgatherv(own.data(), count, MPI_UINT64_T, all.data(), counts.data(), places.data(), MPI_UINT64_T,
                   MPI_COMM_WORLD);
    for (int to = 0; to < ranks_.ranks; ++to) {
      ranks_.count_message(to, sizeof(int) + own.size() * sizeof(std::uint64_t));
    }
    return all;
  }

 private:
  static std::vector<int> in_ints(const std::vector<std::uint64_t>& counts) {
    std::vector<int> numbers;
    for (const std::uint64_t count : counts) {
      if (count > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
        throw OptionError(fmt::format("{} rows are more than MPI counts in one call: start more ranks", count));
      }
      numbers.push_back(static_cast<int>(count));
    }
    return numbers;
  }
  static std::vector<int> places_of(const std::vector<int>& counts) {
    std::vector<int> places(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
    return places;
  }

  Ranks& ranks_;
};

class LabelFile {
 public:
  explicit LabelFile(const std::string& path) {
    if (MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, MPI_INFO_NULL,
                      &file_) != MPI_SUCCESS) {
      throw OptionError(fmt::format("{} cannot be made: name a new file by --labels", path));
    }
  }
  ~LabelFile() { MPI_File_close(&file_); }
  LabelFile(const LabelFile&) = delete;
  LabelFile& operator=(const LabelFile&) = delete;

  void write(std::uint64_t first, std::span<const std::uint32_t> labels) {
    MPI_File_write_at(file_, static_cast<MPI_Offset>(first * sizeof(std::uint32_t)), labels.data(),
                      static_cast<int>(labels.size()), MPI_UINT32_T, MPI_STATUS_IGNORE);
  }

 private:
  MPI_File file_ = MPI_FILE_NULL;
};

nlohmann::ordered_json cluster(Ranks& ranks, const Options& options) {
  const Backing points = Backing::open(options.points, false);
  const PointLayout layout = layout_of_points(*points.store(), options.dimensions);
  if (layout.dimensions > most_tree_dimensions || layout.points > 0x7fffffffU) {
    throw OptionError(
        fmt::format("{} has {} points of {} dimensions, and 2147483647 of {} can be clustered: name "
                    "other points",
                    options.points, layout.points, layout.dimensions, most_tree_dimensions));
  }
  LabelFile file(options.labels);
  ThreadTeam team(1);
  ProgressDisplay progress("clustering", layout.points);
  MpiRowExchange exchange(ranks);
  const auto make_room = [](const char*, std::uint64_t bytes) { return std::make_unique<PlainBytes>(bytes); };
  const RankWork work{*points.store(),    layout,    options.reach, 32,
                      options.neighbours, make_room, false,         layout.points * sizeof(std::uint32_t)};
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  RankClusters clusters(work, exchange, team, progress);
  const DensityCounts counts = clusters.find();
  clusters.visit_labels([&](std::uint64_t first, std::span<const std::uint32_t> labels) { file.write(first, labels); });
  MPI_Barrier(MPI_COMM_WORLD);
  return {
      {"workload", "dbscan-mpi"},       {"seconds", MPI_Wtime() - begin}, {"operations", layout.points},
      {"bytes", layout.bytes()},        {"clusters", counts.clusters},    {"core_points", counts.core},
      {"border_points", counts.border}, {"noise_points", counts.noise},   {"halo_points", sum(clusters.halo_points())}};
}

}  // namespace
}  // namespace tiermap::mpi

int main(int argc, char** argv) {
  const char* const name = "tiermap-dbscan-mpi";
  CLI::App app("Finds the clusters that tiermap-dbscan does, in memory, by MPI, to be compared with.", name);
  tiermap::mpi::Options options;
  app.add_option("points", options.points, "URL or path of the points: floats")->required();
  app.add_option("--labels", options.labels, "File to be made: the number of the cluster of each point")->required();
  app.add_option("--dimensions", options.dimensions, "Coordinates of a point (default: 3)")->check(CLI::Range(1, 64));
  app.add_option("--reach", options.reach, "How far from a point its neighbours may be (default: 8)")
      ->check(CLI::PositiveNumber);
  app.add_option("--neighbours", options.neighbours, "Points within reach that make a core point (default: 64)")
      ->check(CLI::Range(1, 1'000'000'000));
  return tiermap::mpi::run(name, app, argc, argv,
                           [&](tiermap::mpi::Ranks& ranks) { return tiermap::mpi::cluster(ranks, options); });
}
