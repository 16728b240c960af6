// tiermap-median from outside: on every system, with any number of threads and in images of every kind it finds the
// same, and what was planted is among it; files that are no such images are refused by name.
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "apps/program_fixture.hpp"
#include "fits/fits_images.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-median";

class MedianTest : public ProgramTest {
 protected:
  nlohmann::json verified_run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--json", "--vectors", "3000"});
    if (std::find(arguments.begin(), arguments.end(), "--budget") == arguments.end()) {
      // A third of what most of the images here are.
      arguments.insert(arguments.end(), {"--budget", "1MiB"});
    }
    return verified_report(program, arguments);
  }
  /// Generated images, small enough for many runs.
  static std::vector<std::string> images_and(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--count", "20", "--width", "203", "--height", "201", "--objects", "3"});
    return arguments;
  }
  /// Such images, kept in work/images.
  std::string kept_images() const {
    const std::string images = path("work/images");
    EXPECT_EQ(verified_run(images_and({"--file", images, "--keep"})).value("file", ""), images);
    return images;
  }
  /// A directory with one image, or what is given, in it.
  std::string directory_of(const ImageSpecification& image = {}) const {
    std::filesystem::remove_all(path("images"));
    std::filesystem::create_directory(path("images"));
    write_image(path("images/a.fits"), image, 1);
    return path("images");
  }
  void expect_images_refused(const std::string& part) const {
    for (const char* system : {"tiermap", "mmap", "memory"}) {
      expect_refused(program, {"--system", system, "--budget", "4MiB", "--images", path("images")}, part);
    }
  }
};

TEST_F(MedianTest, FindsTheSameOnEverySystemWithAnyNumberOfThreads) {
  nlohmann::json best;
  for (const char* system : {"tiermap", "mmap", "memory"}) {
    for (const char* threads : {"1", "5"}) {
      const nlohmann::json report = verified_run(images_and({"--system", system, "--threads", threads}));
      ASSERT_FALSE(report.empty());
      expect_shared_fields(report, "median", system);
      EXPECT_EQ(report.at("objects_found"), 3);
      EXPECT_EQ(report.at("bytes"), 20 * 203 * 201 * 4);
      EXPECT_EQ(report.at("operations"), 3000 + 3 * 512);
      best = best.is_null() ? report.at("best") : best;
      EXPECT_EQ(report.at("best"), best);
      EXPECT_TRUE(left_behind().empty());
    }
  }
}

TEST_F(MedianTest, FindsTheSameInImagesOfEveryKind) {
  nlohmann::json best;
  for (const char* bits : {"16", "32", "-32", "-64"}) {
    for (const char* system : {"tiermap", "mmap"}) {
      const nlohmann::json report = verified_run(images_and({"--bitpix", bits, "--system", system}));
      ASSERT_FALSE(report.empty());
      best = best.is_null() ? report.at("best") : best;
      EXPECT_EQ(report.at("best"), best);
    }
  }
}

TEST_F(MedianTest, FindsTheSameHoweverManyVectorsAreInFlight) {
  const std::string images = kept_images();
  nlohmann::json best;
  for (const char* in_flight : {"50", "1025", "1000000"}) {
    for (const char* prefetch : {"on", "off"}) {
      const nlohmann::json report =
          verified_run({"--images", images, "--in-flight", in_flight, "--prefetch", prefetch, "--page-size", "16KiB"});
      ASSERT_FALSE(report.empty());
      EXPECT_EQ(report.at("objects_found"), 3);
      // Images that are read from end to end are not announced.
      EXPECT_EQ(report.at("lookahead_bytes") > 0, std::string("50on") == std::string(in_flight) + prefetch);
      best = best.is_null() ? report.at("best") : best;
      EXPECT_EQ(report.at("best"), best);
    }
  }
  EXPECT_EQ(left_behind(), std::vector<std::string>{"images"});
}

TEST_F(MedianTest, AnnouncesSmallPagesWhereFewVectorsAreInFlight) {
  const auto read_bytes = [&](const char* prefetch) {
    const nlohmann::json report =
        verified_report(program, {"--json", "--bytes", "16MiB", "--count", "16", "--budget", "1MiB", "--vectors", "200",
                                  "--threads", "1", "--in-flight", "2", "--page-size", "auto", "--prefetch", prefetch});
    return report.value("paged_in_bytes", std::uint64_t{0});
  };
  // Without announcements it is learnt that single blocks are touched.
  EXPECT_LE(read_bytes("on"), 2 * read_bytes("off"));
}

TEST_F(MedianTest, WorksWithPagesOfEverySizeAndInEveryFaultMode) {
  const std::string images = kept_images();
  for (const char* mode : {"notify", "self-serving"}) {
    if (run(program, {"--fault-mode", mode, "--images", images, "--vectors", "1"}).exit_code == 2) {
      continue;  // Refused by the machine.
    }
    for (const char* page : {"4KiB", "64KiB", "2MiB"}) {
      verified_run({"--images", images, "--page-size", page, "--fault-mode", mode, "--budget", "16MiB"});
    }
  }
}

TEST_F(MedianTest, SeedsGiveOtherImages) {
  for (const char* seed : {"2", "3", "4"}) {
    EXPECT_EQ(verified_run(images_and({"--seed", seed})).at("objects_found"), 3);
  }
}

TEST_F(MedianTest, BytesChooseTheSizeOfImages) {
  const nlohmann::json report = verified_run({"--bytes", "2MiB", "--count", "20"});
  EXPECT_EQ(report.at("images"), 20);
  EXPECT_EQ(report.at("width"), 161);
  EXPECT_EQ(report.at("height"), 161);
}

TEST_F(MedianTest, ReadsImagesOfAllKindsWithoutObjects) {
  const std::string images = directory_of({.width = 50, .height = 40});
  write_image(path("images/b.fit"), {.bits = -32, .width = 50, .height = 40, .comments = 40}, 2);
  write_image(path("images/c.fts"), {.bits = 8, .width = 50, .height = 40, .in_extension = true}, 3);
  write_file("images/notes.txt", "no image");
  for (const char* system : {"tiermap", "mmap", "memory"}) {
    const nlohmann::json report = verified_run({"--images", images, "--system", system});
    EXPECT_EQ(report.at("images"), 3);
    EXPECT_EQ(report.at("objects"), 0);
  }
  // The mean of two pixels is past what a float can be, and no mistake.
  const ImageSpecification bright{.bits = 16, .width = 50, .height = 40, .scale = 1e34};
  const std::string brightest = directory_of(bright);
  write_image(path("images/b.fits"), bright, 2);
  verified_run({"--images", brightest});
  // Nothing but pixels without a value; one pixel.
  verified_run({"--images", directory_of({.bits = 8, .width = 1, .height = 1})});
  verified_run({"--images", directory_of({.bits = 16, .width = 9, .height = 9, .scale = 1e300})});
}

TEST_F(MedianTest, AnObjectThatIsNotThereIsMissed) {
  const std::string images = kept_images();
  const auto expect_wrong = [&](const char* keyword, double value, const std::string& part) {
    change_key(images + "/image-00000.fits", keyword, value);
    const Outcome outcome = run(program, {"--images", images, "--vectors", "100", "--json"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors;
    EXPECT_EQ(outcome.json().at("verified"), false);
  };
  expect_wrong("TMX3", -5000, "object 3");
  expect_wrong("TMPEAK2", 500, "object 2 shows a flux");
  EXPECT_EQ(run(program, {"--images", images, "--vectors", "100", "--no-verify"}).exit_code, 0);
  expect_wrong("TMX1", 30, "object 1");
}

TEST_F(MedianTest, RefusesFilesThatAreNoSuchImages) {
  const std::string file = directory_of() + "/a.fits";
  std::filesystem::resize_file(file, 2880 + 127);
  expect_images_refused("a.fits is cut off");
  // All pixels are there, but cfitsio, by which medians are checked, would read none of them.
  std::filesystem::resize_file(file, 2880 + 128);
  expect_images_refused("a.fits is cut off: of the last 2880 bytes");
  std::filesystem::resize_file(file, 1000);
  expect_images_refused("a.fits is cut off: its 1000 bytes end within its header");
  write_file("images/a.fits", "");
  expect_images_refused("a.fits is empty");
  write_file("images/a.fits", "\x1f\x8b and so on");
  expect_images_refused("gunzip");
  write_file("images/a.fits", "SIMPLEX and so on");
  expect_images_refused("a.fits is no FITS file");
  write_file("images/a.fits", "SIMPLE  = and so on" + std::string(9000, ' '));
  expect_images_refused("a.fits is no FITS image");
  std::filesystem::remove(file);
  expect_images_refused("holds no image");
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  expect_images_refused("a.fits is a FIFO");
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  expect_images_refused("a.fits cannot be opened: Is a directory");
  std::filesystem::remove_all(path("images"));
  expect_images_refused("images cannot be read");
}

TEST_F(MedianTest, RefusesImagesOfOtherDimensions) {
  const std::string file = directory_of() + "/a.fits";
  const auto make = [&](int axes) {
    std::filesystem::remove(file);
    fitsfile* fits = nullptr;
    int status = 0;
    std::array<long, 3> sides = {5, 4, 3};
    fits_create_diskfile(&fits, file.c_str(), &status);
    fits_create_img(fits, 16, axes, sides.data(), &status);
    fits_close_file(fits, &status);
    ASSERT_EQ(status, 0);
  };
  make(0);
  expect_images_refused("a.fits holds no image");
  make(1);
  expect_images_refused("1 dimension,");
  make(3);
  expect_images_refused("3 dimensions");
}

TEST_F(MedianTest, RefusesCompressedImages) {
  directory_of({.width = 100, .height = 100});
  fitsfile* from = nullptr;
  fitsfile* to = nullptr;
  int status = 0;
  fits_open_diskfile(&from, path("images/a.fits").c_str(), READONLY, &status);
  fits_create_diskfile(&to, path("images/b.fits.fz").c_str(), &status);
  fits_set_compression_type(to, RICE_1, &status);
  fits_img_compress(from, to, &status);
  fits_close_file(to, &status);
  fits_close_file(from, &status);
  ASSERT_EQ(status, 0);
  expect_images_refused("funpack");
}

TEST_F(MedianTest, RefusesImagesThatDoNotGoTogether) {
  directory_of({.width = 10, .height = 9, .day = 59001});
  write_image(path("images/b.fits"), {.width = 10, .height = 9, .day = 59000}, 1);
  expect_images_refused("was taken");
  std::filesystem::remove(path("images/b.fits"));
  write_image(path("images/b.fits"), {.width = 9, .height = 10}, 1);
  expect_images_refused("b.fits has 9 x 10 pixels");
  std::filesystem::remove(path("images/b.fits"));
  change_key(path("images/a.fits"), "BSCALE", 0);
  expect_images_refused("BSCALE");
  directory_of();
  change_key(path("images/a.fits"), "TMOBJS", 2);
  expect_images_refused("TMOBJS");
}

TEST_F(MedianTest, RefusesWhatMayNotBeRead) {
  if (const std::string reason = start_without_privileges(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  ASSERT_EQ(::chmod((directory_of() + "/a.fits").c_str(), 0), 0);
  expect_images_refused("a.fits cannot be opened: Permission denied");
}

TEST_F(MedianTest, RefusesWhatCannotBeMeant) {
  const std::string images = directory_of();
  expect_refused(program, {"--vectors", "0"}, "vectors 0");
  expect_refused(program, {"--count", "3"}, "count 3");
  expect_refused(program, {"--width", "many"}, "many");
  expect_refused(program, {"--height", "1"}, "height 1");
  expect_refused(program, {"--bitpix", "8"}, "bitpix 8");
  expect_refused(program, {"--objects", "100"}, "objects 100");
  expect_refused(program, {"--in-flight", "0"}, "in flight 0");
  expect_refused(program, {"--best", "-1"}, "best -1");
  expect_refused(program, {"--fastest", "quick"}, "quick");
  expect_refused(program, {"--fastest", "nan"}, "nan");
  expect_refused(program, {"--slowest", "4"}, "--fastest");
  expect_refused(program, {"--bytes", "4KiB"}, "--bytes");
  expect_refused(program, {"--bytes", "1GiB", "--width", "100"}, "choose one");
  expect_refused(program, {"--width", "32", "--height", "32", "--count", "100"}, "no more than 0 objects");
  expect_refused(program, {"--fault-mode", "kernel"}, "a cube of images is not one plain file");
  expect_refused(program, {"--file", images}, "exists");
  expect_refused(program, {"--file", path("missing/images")}, "missing");
  expect_refused(program, {"--file", "memory:1GiB"}, "is no path");
  expect_refused(program, {"--images", images, "--width", "100"}, "--images");
  expect_refused(program, {"--images", images, "--file", path("x")}, "--images");
}

TEST_F(MedianTest, AFolderHasItsNameOnceItIsWhole) {
  const std::string images = path("work/images");
  const pid_t child = start(program, {"--file", images, "--budget", "4MiB"});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(images + ".partial/image-00003.fits") &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGKILL);
  EXPECT_EQ(left_behind(), (std::vector<std::string>{"images.partial"}));
  expect_refused(program, {"--file", images}, "images.partial is there: a run that was killed has left it", 1);
}

TEST_F(MedianTest, AFolderMayBeNamedWithASlashAtItsEnd) {
  const Outcome outcome = run(program, {"--file", path("work/images/"), "--keep", "--count", "8", "--width", "64",
                                        "--height", "64", "--vectors", "1", "--budget", "4MiB"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(left_behind(), (std::vector<std::string>{"images"}));
}

TEST_F(MedianTest, LeavesNothingWhereNoFileCanBeOpenedAnyMore) {
  const std::string line =
      "exec " + std::string(TIERMAP_BINARY_FOLDER) + "/" + program + " --count 8 --width 64 --height 64";
  for (int limit = 16; limit <= 32; ++limit) {  // Of which some files are the test's own.
    const Outcome outcome = run("/bin/sh", {"-c", "ulimit -n " + std::to_string(limit) + " && " + line});
    EXPECT_TRUE(left_behind().empty()) << limit << ": " << outcome.errors;
    if (outcome.exit_code != 0) {
      EXPECT_NE(outcome.errors.find("ulimit -n"), std::string::npos) << limit << ": " << outcome.errors;
    }
  }
}

TEST_F(MedianTest, LeavesNothingWhenInterrupted) {
  // More than once: the threads that write images should be met in every moment of it.
  for (int round = 0; round < 10 && !HasFailure(); ++round) {
    const pid_t child = start(program, {"--file", path("work/images"), "--budget", "4MiB"});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!std::filesystem::exists(path("work/images.partial/image-0000" + std::to_string(round) + ".fits")) &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(::kill(child, SIGTERM), 0);
    EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGTERM);
    EXPECT_TRUE(left_behind().empty());
  }
}

}  // namespace
}  // namespace tiermap::test
