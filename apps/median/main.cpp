// tiermap-median: looks for things that move through a series of images and are too faint for any one of them, by
// medians along millions of vectors through images that together may be larger than memory.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/program.hpp"
#include "config/size.hpp"
#include "median/cube.hpp"
#include "median/image_source.hpp"
#include "median/search_check.hpp"
#include "median/vector_search.hpp"
#include "platform/memory_limits.hpp"
#include "store/fits/image_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-median";
constexpr std::uint64_t default_page_size = std::uint64_t{1} << 20U;
constexpr std::uint64_t default_count = 64;
constexpr std::uint64_t most_images = 100'000;
constexpr std::uint64_t least_side = 32;
constexpr std::uint64_t most_side = 65536;
constexpr std::uint64_t most_in_flight = std::uint64_t{1} << 20U;

/// The program's own options, as they are typed.
struct MedianOptions {
  std::string images;
  std::string count;
  std::string width;
  std::string height;
  std::string bits;
  std::string objects;
  std::string vectors = "1000000";
  std::string in_flight;
  std::string slowest = "0.5";
  std::string fastest = "3";
  std::string best = "16";
};

double parse_speed(const std::string& text, const char* what) {
  double speed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), speed);
  if (error != std::errc{} || end != text.data() + text.size() || !(speed >= 0 && speed <= 1000)) {
    throw OptionError(fmt::format("{} {} is no number of pixels from 0 to 1000: choose for example 1.5", what, text));
  }
  return speed;
}

SpeedRange parse_speeds(const MedianOptions& median) {
  const SpeedRange speeds{parse_speed(median.slowest, "slowest"), parse_speed(median.fastest, "fastest")};
  if (speeds.slowest > speeds.fastest) {
    throw OptionError(fmt::format("--slowest {} is faster than --fastest {}: choose the other way round",
                                  median.slowest, median.fastest));
  }
  return speeds;
}

int parse_bits(const MedianOptions& median) {
  for (const int bits : {16, 32, -32, -64}) {
    if (median.bits.empty() || median.bits == std::to_string(bits)) {
      return bits;
    }
  }
  throw OptionError(fmt::format("bitpix {} is not to be generated: choose 16, 32, -32 or -64", median.bits));
}

/// Of the images to be generated. With --bytes they are as large as so many can be.
CubeShape choose_shape(const WorkloadOptions& options, const MedianOptions& median) {
  CubeShape shape;
  shape.width = whole_number_or(median.width, "width", least_side, most_side, 1024);
  shape.height = whole_number_or(median.height, "height", least_side, most_side, 1024);
  shape.images = whole_number_or(median.count, "count", 4, most_images, default_count);
  if (options.bytes.has_value()) {
    const std::uint64_t pixels = *options.bytes / sizeof(float) / shape.images;
    const auto side = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(pixels)));
    if (side < least_side || side > most_side) {
      throw OptionError(
          fmt::format("{} are {} images of {} x {} floats, where {} to {} are allowed: choose other "
                      "--bytes or another --count",
                      format_size(*options.bytes), shape.images, side, side, least_side, most_side));
    }
    shape.width = side;
    shape.height = side;
  }
  return shape;
}

std::uint64_t parse_objects(const MedianOptions& median) {
  return whole_number_or(median.objects, "objects", 0, most_objects, 8);
}
std::uint64_t parse_vectors(const MedianOptions& median) {
  return parse_whole_number(median.vectors, "vectors", 1, std::uint64_t{1} << 40U);
}
std::uint64_t parse_best(const MedianOptions& median) {
  return parse_whole_number(median.best, "best", 0, BestMedians::most);
}

/// What can be known to be wrong before anything is made or read.
void check_options(const WorkloadOptions& options, const MedianOptions& median) {
  parse_vectors(median);
  parse_best(median);
  parse_speeds(median);
  whole_number_or(median.in_flight, "in flight", 1, most_in_flight, 1);
  if (options.bytes.has_value() && !(median.width.empty() && median.height.empty())) {
    throw OptionError("--bytes says how large images are to be, as do --width and --height: choose one of them");
  }
  if (median.images.empty()) {
    choose_shape(options, median);
    parse_bits(median);
    parse_objects(median);
    if (backing_exists(options.file)) {
      throw OptionError(
          fmt::format("{} exists: name a new directory, or read the images in it with --images", options.file));
    }
    if (!options.file.empty() && !is_plain_path(options.file)) {
      throw OptionError(fmt::format("{} is no path: name the directory to be made by its path", options.file));
    }
    return;
  }
  const bool makes = options.bytes.has_value() || !options.file.empty() || !median.count.empty() ||
                     !median.width.empty() || !median.height.empty() || !median.bits.empty() || !median.objects.empty();
  if (makes) {
    throw OptionError(
        "--images reads images, and --file, --bytes, --count, --width, --height, --bitpix and --objects are for images "
        "to be made: leave one of the two out");
  }
}

/// Stands for the cube while there are no images yet: a system that cannot map it says so before they are made.
class CubeToBe final : public Store {
 public:
  std::uint64_t size_bytes() const override { return 4096; }
  std::int64_t read(void*, std::size_t, std::uint64_t) override { return 0; }
  std::string name() const override { return "a cube of images"; }
};

/// A page has to be converted as it is read, so that a filler can read but one at a time: it takes many of them to keep
/// a disk at work.
WorkloadOptions with_many_fillers(WorkloadOptions options) {
  constexpr std::uint32_t reads_in_flight = 16;
  options.fillers = reads_in_flight;
  return options;
}

/// One run of the program: images, a system, and the search.
class MedianRun {
 public:
  MedianRun(const WorkloadOptions& options, const MedianOptions& median)
      : options_(with_many_fillers(options)), median_(median), team_(options.threads), progress_("preparing", 0) {}

  Report run() {
    check_options(options_, median_);
    system_ = MemorySystem::make(options_);
    if (options_.system == System::tiermap) {
      system_->map(Backing::around(std::make_shared<CubeToBe>()), Access::read_only);
    }
    const StopWatch preparing;
    open_images();
    const auto store = std::make_shared<FitsImageStore>(directory_.images, PixelTarget{{'f', sizeof(float)}, true},
                                                        true, false, "the images in " + directory_.path, FileOptions());
    plan_ = {directory_.shape,        parse_speeds(median_),  directory_.objects,
             directory_.times.back(), parse_vectors(median_), options_.seed};
    choose_search();
    check_memory();
    progress_.restart("measuring the sky", 0);
    sky_ = measure_sky(*store, directory_.shape, team_);
    directory_.make_cold();
    report_.fields["prepare_seconds"] = preparing.seconds();

    const StopWatch loading;
    if (options_.system == System::mmap) {
      const RawCube cube(directory_, options_.advice);
      report_.fields["load_seconds"] = loading.seconds();
      search(cube);
    } else {
      progress_.restart(options_.system == System::memory ? "loading" : "mapping", 0);
      const std::unique_ptr<MappedBytes> mapped = system_->map(Backing::around(store), Access::read_only);
      report_.fields["load_seconds"] = loading.seconds();
      search(FloatCube(*mapped, directory_.shape, choose_announced_bytes()));
    }
    if (options_.keep && median_.images.empty()) {
      report_.fields["file"] = source_->path();
      source_->keep();
    }
    return std::move(report_);
  }

 private:
  void open_images() {
    if (median_.images.empty()) {
      const StarField field(choose_shape(options_, median_), parse_bits(median_), parse_objects(median_),
                            parse_speeds(median_), options_.seed);
      source_ = std::make_unique<ImageSource>(
          options_.file.empty() ? scratch_path(program_name, "images") : options_.file, field, team_, progress_);
    } else {
      source_ = std::make_unique<ImageSource>(median_.images);
    }
    progress_.restart("reading headers", 0);
    directory_ = read_fits_directory(source_->path());
  }

  /// A quarter of the budget is for pages that are on their way. Where so many vectors are under way that images are
  /// read from end to end, whoever pages sees that, and reads ahead sooner than it could be said.
  void choose_search() {
    constexpr std::uint64_t vectors_all_over = 256;
    constexpr std::uint64_t default_values_bytes = std::uint64_t{32} << 20U;
    const std::uint64_t threads = options_.threads;
    const std::uint64_t fitting = default_values_bytes / threads / sizeof(float) / directory_.shape.images;
    const std::uint64_t share = (plan_.size() + threads - 1) / threads;
    search_.in_flight = whole_number_or(median_.in_flight, "in flight", 1, most_in_flight,
                                        std::clamp<std::uint64_t>(fitting, 1, std::min(share, most_in_flight)));
    if (options_.prefetch && options_.system != System::memory && vectors_a_stretch() < vectors_all_over) {
      search_.lookahead_bytes = system_->budget_bytes() / 4 / threads;
    }
  }

  /// Vectors of a thread that are under way for each 64 KiB of an image.
  std::uint64_t vectors_a_stretch() const {
    constexpr std::uint64_t stretch_bytes = std::uint64_t{64} << 10U;
    return search_.in_flight / (directory_.shape.bytes() / directory_.shape.images / stretch_bytes + 1);
  }

  /// What is announced comes in pages as large as it is, where their size follows the access.
  std::uint64_t choose_announced_bytes() const {
    constexpr std::uint64_t vectors_for_a_page = 4;
    return vectors_a_stretch() < vectors_for_a_page ? system_->least_page_bytes() : system_->page_size_bytes();
  }

  void check_memory() const {
    const std::uint64_t values = options_.threads * search_.in_flight * directory_.shape.images * sizeof(float);
    // The page cache, which is what mmap takes, gives way to what is needed.
    const std::uint64_t cube = directory_.shape.bytes();
    const std::uint64_t pages = options_.system == System::tiermap  ? std::min(system_->budget_bytes(), cube)
                                : options_.system == System::memory ? cube
                                                                    : 0;
    const std::uint64_t usable = read_machine_memory().usable_bytes();
    if (values + pages > usable) {
      throw OptionError(fmt::format("the values of {} vectors in flight of each thread need {} of memory beside {} for "
                                    "pages, and {} is left: choose a smaller --budget, fewer --in-flight or another "
                                    "--system",
                                    search_.in_flight, format_size_rounded(values), format_size_rounded(pages),
                                    format_size_rounded(usable)),
                        ENOMEM);
    }
  }

  template <typename Cube>
  void search(const Cube& cube) {
    progress_.restart("searching", plan_.size());
    Measurement measured(*system_);
    const SearchResult result = search_vectors(cube, plan_, directory_.times, sky_, search_, team_, progress_);
    measured.pause();
    const std::vector<Detection> detections = detections_of(result.best, plan_);
    if (options_.verify) {
      const StopWatch verifying;
      progress_.restart("checking", 0);
      verify(result, detections);
      report_.fields["verify_seconds"] = verifying.seconds();
    }
    describe(measured, detections);
  }

  void verify(const SearchResult& result, const std::vector<Detection>& detections) {
    std::vector<VectorMedian> medians = result.sample;
    for (std::size_t index = 0; index < std::min<std::size_t>(detections.size(), search_.sampled_medians); ++index) {
      medians.push_back(detections[index].median);
    }
    report_.failure = find_wrong_median(directory_, plan_, sky_, medians);
    if (report_.failure.empty()) {
      report_.failure = find_missing_object(directory_, plan_, sky_, detections);
    }
    report_.verified = report_.failure.empty();
  }

  void describe(const Measurement& measured, const std::vector<Detection>& detections) {
    const CubeShape& shape = directory_.shape;
    const auto found = static_cast<std::uint64_t>(std::count_if(
        plan_.objects.begin(), plan_.objects.end(),
        [&](const KnownObject& object) { return find_object(detections, object, plan_.duration) != nullptr; }));
    std::uint64_t file_bytes = 0;
    for (const FitsImage& image : directory_.images) {
      file_bytes += image.data_bytes();
    }
    const double rate = static_cast<double>(plan_.size()) / measured.seconds;
    report_.workload = "median";
    report_.operations = plan_.size();
    report_.bytes = shape.bytes();
    report_.fields["images"] = shape.images;
    report_.fields["width"] = shape.width;
    report_.fields["height"] = shape.height;
    report_.fields["file_bytes"] = file_bytes;
    report_.fields["sky_noise"] = sky_.noise;
    report_.fields["vectors_per_second"] = rate;
    report_.fields["in_flight"] = search_.in_flight;
    report_.fields["lookahead_bytes"] = search_.lookahead_bytes;
    report_.fields["objects"] = plan_.objects.size();
    report_.fields["objects_found"] = found;
    report_.fields["detections"] = detections.size();
    report_.fields["best"] = nlohmann::ordered_json::array();
    for (std::size_t index = 0; index < std::min<std::size_t>(detections.size(), parse_best(median_)); ++index) {
      const auto& [median, motion] = detections[index];
      report_.fields["best"].push_back({{"x", motion.x},
                                        {"y", motion.y},
                                        {"speed_x", motion.speed_x},
                                        {"speed_y", motion.speed_y},
                                        {"flux", median.flux},
                                        {"significance", median.significance},
                                        {"pixels", median.pixels}});
    }
    report_.remark = fmt::format(
        "{} vectors through {} images of {} x {}: {:.0f} a second, {} detections, {} of {} "
        "known objects found",
        plan_.size(), shape.images, shape.width, shape.height, rate, detections.size(), found, plan_.objects.size());
    report_.describe(options_, *system_, measured);
  }

  const WorkloadOptions options_;
  const MedianOptions& median_;
  ThreadTeam team_;
  ProgressDisplay progress_;
  std::unique_ptr<MemorySystem> system_;
  std::unique_ptr<ImageSource> source_;
  FitsDirectory directory_;
  SearchPlan plan_;
  Sky sky_;
  SearchOptions search_;
  Report report_;
};

void declare(CLI::App& app, MedianOptions& median) {
  app.add_option("--images", median.images,
                 "Directory of FITS images, in the order of their names (default: generate)");
  app.add_option("--count", median.count, "Images to generate (default: 64); --bytes is their size as native floats");
  app.add_option("--width", median.width, "Pixels in a row of a generated image (default: 1024)");
  app.add_option("--height", median.height, "Rows of a generated image (default: 1024)");
  app.add_option("--bitpix", median.bits, "How generated pixels are kept: 16, 32, -32 or -64 (default: 16)");
  app.add_option("--objects", median.objects, "Moving objects in generated images, at most 99 (default: 8)");
  app.add_option("--vectors", median.vectors, "Random vectors (default: 1000000)");
  app.add_option("--in-flight", median.in_flight, "Vectors of each thread that go through the images together");
  app.add_option("--slowest", median.slowest, "Least speed of a vector, in pixels an image (default: 0.5)");
  app.add_option("--fastest", median.fastest, "Highest speed of a vector (default: 3)");
  app.add_option("--best", median.best, "Detections in the report of --json, at most (default: 16)");
}

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(
      tiermap::program_name,
      "Looks for moving objects in a series of FITS images by medians along vectors, out of core, and checks them.",
      tiermap::default_page_size);
  tiermap::MedianOptions median;
  tiermap::declare(program.app(), median);
  return program.run(
      argc, argv, [&](const tiermap::WorkloadOptions& options) { return tiermap::MedianRun(options, median).run(); });
}
