// Text in an object: the numbers that are in it, in a vector larger than memory, and an error once it changes.
#include <gtest/gtest.h>

#include <cerrno>

#include "s3/strict_server.hpp"
#include "store/opening_refusal.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

TEST(S3Csv, ATableInAnObject) {
  StrictServer server;
  ASSERT_TRUE(server.runs()) << "python3 does not run tests/s3/strict_server.py";
  std::string text = "name;x;y\n";
  double expected = 0;
  for (int row = 0; row < 200'000; ++row) {
    text +=
        "\"row; " + std::to_string(row) + "\";" + std::to_string(row % 1000) + ";" + std::to_string(row % 7) + ".5\n";
    expected += row % 1000 + row % 7 + 0.5;
  }
  server.load("table.csv", text);
  const std::string url = "csv:" + server.url("table.csv", "columns=x,y&type=float32&delimiter=%3B&max_reads=2");
  VectorOptions options;
  options.budget_bytes = 2 << 20;
  options.page_size_bytes = 256 << 10;
  {
    auto vector = Vector<float>::open_read_only(url, options);
    ASSERT_EQ(vector.size(), 400'000U);
    EXPECT_EQ(vector[2 * 123'456], 456);
    double sum = 0;
    vector.read().for_each([&](float value) { sum += value; });
    EXPECT_EQ(sum, expected);
  }
  const auto store = open_store(url, OpenMode::read_only);
  EXPECT_EQ(store->max_reads_in_flight(), 2U);
  EXPECT_EQ(store->element_layout()->shape, (std::vector<std::uint64_t>{200'000, 2}));
  server.counts();
  std::vector<char> page(64 << 10);
  ASSERT_EQ(store->read(page.data(), page.size(), 1 << 20), static_cast<std::int64_t>(page.size()));
  EXPECT_EQ(server.counts()["get"], 1);

  const std::string bad = "csv:" + server.url("table.csv", "columns=name,y&delimiter=%3B");
  expect_said(refusal_of_opening(bad, EINVAL), {server.url("table.csv").c_str(), "line 2 has in column name 'row; 0'"});
  expect_said(refusal_of_opening(url, EROFS, OpenMode::read_write), {"only read"});
  expect_said(refusal_of_opening("csv:" + server.url("table.csv", "direct=on"), EINVAL), {"'direct' is unknown to s3"});
  expect_said(refusal_of_opening("csv:" + server.url("none.csv"), ENOENT), {"NoSuchKey"});

  server.load("table.csv", text + "x;1;2\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(store->read(page.data(), page.size(), 0), -ESTALE);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("open it again"), std::string::npos);
}

}  // namespace
}  // namespace tiermap
