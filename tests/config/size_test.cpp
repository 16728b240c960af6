// Sizes and budgets are read exactly, written shortly, and refused by name.
#include "config/size.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

#include "config/environment.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t kibi = 1024;

TEST(Size, MeansWhatIsWritten) {
  const std::pair<const char*, std::uint64_t> cases[] = {
      {"0", 0},
      {"4096", 4096},
      {"007", 7},
      {"12B", 12},
      {"64KiB", 64 * kibi},
      {"64 KiB", 64 * kibi},
      {"64kib", 64 * kibi},
      {"64K", 64 * kibi},
      {"64k", 64 * kibi},
      {"64KB", 64'000},
      {"3MiB", 3 * kibi * kibi},
      {"3M", 3 * kibi * kibi},
      {"3MB", 3'000'000},
      {"2GiB", 2 * kibi * kibi * kibi},
      {"2G", 2 * kibi * kibi * kibi},
      {"2GB", 2'000'000'000},
      {"5TiB", 5 * kibi * kibi * kibi * kibi},
      {"5T", 5 * kibi * kibi * kibi * kibi},
      {"5TB", 5'000'000'000'000},
      {"7PiB", 7 * kibi * kibi * kibi * kibi * kibi},
      {"7PB", 7'000'000'000'000'000},
      {"1.5GiB", 1536 * kibi * kibi},
      {"0.5K", 512},
      {"1.0009765625KiB", 1025},
      {"0.0009KiB", 0},
      {"18446744073709551615", std::numeric_limits<std::uint64_t>::max()},
      {"16383PiB", 16383 * kibi * kibi * kibi * kibi * kibi},
  };
  for (const auto& [text, bytes] : cases) {
    EXPECT_EQ(parse_size(text, "--bytes"), bytes) << text;
  }
}

TEST(Size, RefusesByName) {
  for (const char* text : {"",      " ",  "10XB", "-1",   "+1",  "1e400", "1e3", "0x10", "KiB", ".5K",  "1.", "1.K",
                           "1..5K", " 1", "1 ",   "1  K", "1K ", "1KiBB", "inf", "nan",  "50%", "1,5G", "\n", "1\nK"}) {
    const std::string message = refusal([&] { parse_size(text, "--bytes"); });
    EXPECT_TRUE(message.starts_with("--bytes '")) << message;
    EXPECT_NE(message.find("is not a size: write a number and a unit"), std::string::npos) << message;
  }
  EXPECT_NE(refusal([] { parse_size("10XB", "--bytes"); }).find("'10XB'"), std::string::npos);
}

TEST(Size, RefusesWhatDoesNotFit) {
  for (const char* text : {"18446744073709551616", "99999999999999999999999", "16384PiB", "16777216TiB"}) {
    const std::string message = refusal([&] { parse_size(text, "--bytes"); });
    EXPECT_NE(message.find("more than 64 bits can count"), std::string::npos) << message;
  }
}

TEST(Size, LongValuesAreCutOffInMessages) {
  EXPECT_LT(refusal([] { parse_size(std::string(100'000, 'x'), "--bytes"); }).size(), 300U);
}

TEST(Size, ShortestFormIsExact) {
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(512), "512");
  EXPECT_EQ(format_size(65536), "64KiB");
  EXPECT_EQ(format_size(65537), "65537");
  EXPECT_EQ(format_size(1536 * kibi * kibi), "1536MiB");
  EXPECT_EQ(format_size(kibi * kibi * kibi), "1GiB");
  std::mt19937_64 random(1);
  for (int round = 0; round < 10'000; ++round) {
    const std::uint64_t bytes = random() >> (random() % 64) << (random() % 30);
    EXPECT_EQ(parse_size(format_size(bytes), "size"), bytes);
  }
}

TEST(Size, RoundedFormHasThreeDigits) {
  const std::pair<double, const char*> cases[] = {{0, "0 B"},
                                                  {512, "512 B"},
                                                  {1000, "0.977 KiB"},
                                                  {1024, "1.00 KiB"},
                                                  {65536, "64.0 KiB"},
                                                  {102400, "100 KiB"},
                                                  {1.21 * 1024 * 1024 * 1024, "1.21 GiB"},
                                                  {9.999 * 1024, "10.0 KiB"},
                                                  {99.99 * 1024, "100 KiB"},
                                                  {999.6 * 1024, "0.976 MiB"},
                                                  {1024.0 * 1024 * 1024 * 1024 * 1024 * 5000, "5000 PiB"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(format_size_rounded(bytes), text);
  }
}

TEST(Budget, IsASizeOrAShare) {
  constexpr std::uint64_t available = 1'000'000;
  EXPECT_EQ(parse_budget("64KiB", "--budget", available), 65536U);
  EXPECT_EQ(parse_budget("50%", "--budget", available), 500'000U);
  EXPECT_EQ(parse_budget("12.5%", "--budget", available), 125'000U);
  EXPECT_EQ(parse_budget("100%", "--budget", available), available);
  EXPECT_EQ(parse_budget("100%", "--budget", std::numeric_limits<std::uint64_t>::max()),
            std::numeric_limits<std::uint64_t>::max());
  for (const char* text : {"0%", "0.0000000001%", "101%", "100.1%", "99999999999999999999%"}) {
    const std::string message = refusal([&] { parse_budget(text, "--budget", available); });
    EXPECT_NE(message.find("choose above 0% and up to 100%"), std::string::npos) << message;
  }
  for (const char* text : {"%", "-5%", "5%%", "5K%", "x%", "50 percent"}) {
    const std::string message = refusal([&] { parse_budget(text, "--budget", available); });
    EXPECT_NE(message.find("or a share of free memory"), std::string::npos) << message;
  }
}

TEST(Budget, ShareOfThisMachineIsBelowItsMemory) {
  const std::uint64_t half = parse_budget("50%", "--budget");
  EXPECT_GT(half, 0U);
  EXPECT_LT(half, parse_size("64TiB", "size"));
}

TEST(Quote, KeepsOneLine) {
  EXPECT_EQ(quote_value("a\nb\x7f"), "'a?b?'");
  EXPECT_EQ(quote_value(std::string(81, 'x')), "'" + std::string(80, 'x') + "...'");
}

}  // namespace
}  // namespace tiermap
