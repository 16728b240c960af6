// Parquet files that are made: of the columns that the URL names, whole at once, and nothing where they cannot be.
#include <gtest/gtest.h>

#include "parquet/parquet_files.hpp"
#include "store/reference_check.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

using ParquetCreationTest = ParquetTest;

TEST_F(ParquetCreationTest, AVectorIsMadeAndReadAgain) {
  struct Particle {
    std::int64_t id;
    float mass;
    bool near;
  };
  const std::string where = url("made.parquet", "columns=id:int64,mass:float32,near:bool&align=on&group=64KiB");
  {
    auto particles = Vector<Particle>::create(where, 50'000);
    for (std::size_t index = 0; index < particles.size(); ++index) {
      particles[index] = {static_cast<std::int64_t>(index), static_cast<float>(index) / 2, index % 5 == 0};
    }
    particles.close();
  }
  EXPECT_EQ(names_there(), std::vector<std::string>{"made.parquet"});
  auto particles = Vector<Particle>::open_read_only(where);
  ASSERT_EQ(particles.size(), 50'000U);
  for (std::size_t index = 0; index < particles.size(); ++index) {
    ASSERT_EQ(particles[index].id, static_cast<std::int64_t>(index));
    ASSERT_EQ(particles[index].mass, static_cast<float>(index) / 2);
    ASSERT_EQ(particles[index].near, index % 5 == 0);
  }
  auto masses = Vector<float>::open_read_only(url("made.parquet", "columns=mass"));
  EXPECT_EQ(masses[49'999], 49'999.0F / 2);
}

TEST_F(ParquetCreationTest, EveryTypeAndCompression) {
  const std::string columns =
      "a:bool,b:int8,c:int16,d:int32,e:int64,f:uint8,g:uint16,h:uint32,i:uint64,j:float32,k:float64";
  for (const char* compression : {"none", "snappy", "gzip", "zstd", "brotli", "lz4"}) {
    const std::string where = url(std::string(compression) + ".parquet",
                                  "columns=" + columns + "&rows=3001&group=4KiB&compression=" + compression);
    std::vector<char> expected(3001 * 43);
    {
      const auto store = open_store(where, OpenMode::create);
      expect_equal(*store, expected);
      for (std::size_t row = 0; row < 3001; ++row) {
        expected[row * 43] = row % 2 == 0 ? '\1' : '\0';
        expected[row * 43 + 9] = static_cast<char>(row);
      }
      ASSERT_EQ(store->write(expected.data(), expected.size(), 0), static_cast<std::int64_t>(expected.size()));
      ASSERT_EQ(store->flush(), 0);
    }
    expect_equal(*open_store(where, OpenMode::open_or_create), expected);
  }
}

TEST_F(ParquetCreationTest, OfElementsThatAreNotWantedNothingIsMade) {
  const std::string where = url("made.parquet", "columns=x:float32,y:float32");
  EXPECT_THROW(Vector<double>::create(where, 100), StoreError);
  EXPECT_THROW(Vector<std::int32_t>::open_or_create(where, 100), StoreError);
  EXPECT_THROW(Vector<float>::create(where, 100, {.budget_bytes = 1}), OptionError);
  EXPECT_TRUE(names_there().empty());
  EXPECT_EQ(Vector<float>::create(where, 100).size(), 100U);
}

TEST_F(ParquetCreationTest, OpenOrCreateDoesEither) {
  const std::string where = url("either.parquet", "columns=x:float64&rows=100");
  ASSERT_EQ(open_store(where, OpenMode::open_or_create)->write("12345678", 8, 80), 8);
  std::array<char, 8> there = {};
  ASSERT_EQ(open_store(where, OpenMode::open_or_create)->read(there.data(), 8, 80), 8);
  EXPECT_EQ(std::string(there.data(), 8), "12345678");
  expect_said(refusal(url("either.parquet", "columns=x:float32"), EINVAL), {"column x holds float64, not float32"});
  expect_said(refusal(url("either.parquet", "columns=x&rows=99"), EINVAL), {"there are 100 rows, not 99"});
}

TEST_F(ParquetCreationTest, WhatCannotBeMadeLeavesNothing) {
  const auto refused = [this](const std::string& options, std::uint64_t bytes = 0) {
    return refusal(url("new.parquet", options), EINVAL, OpenMode::create, bytes);
  };
  expect_said(refused(""), {"what columns are to be made", "columns=x:float32,y:int64"});
  expect_said(refused("columns=x"), {"what column x is to hold"});
  expect_said(refused("columns=x:text&rows=5"), {"type 'text' is not made", "float32"});
  expect_said(refused("columns=x:"), {"'x:' names no column"});
  expect_said(refused("columns=,x:int8"), {"'' names no column"});
  expect_said(refused("columns=x:int8,x:int8&rows=4"), {"x"});
  expect_said(refused("columns=x:float32"), {"how many there are to be", "rows=1000000"});
  expect_said(refused("columns=x:float32", 5), {"5 bytes are no whole number of rows of 4 bytes"});
  expect_said(refused("columns=x:float32&rows=2", 12), {"rows 2 take 4 bytes each", "12"});
  expect_said(refused("columns=x:float32&rows=0"), {"rows '0' is no number of rows"});
  expect_said(refused("columns=x:float32&rows=2&compression=best"), {"compression 'best' is unknown", "zstd"});
  expect_said(refusal(url("*.parquet", "columns=x:int8"), EINVAL, OpenMode::create), {"create each"});
  expect_said(refusal(url("none/new.parquet", "columns=x:int8&rows=1"), ENOENT, OpenMode::create), {"none"});
  EXPECT_TRUE(names_there().empty());
  copy("points.parquet");
  expect_said(refusal(url("points.parquet", "columns=x:int8&rows=1"), EEXIST, OpenMode::create), {"points.parquet"});
}

}  // namespace
}  // namespace tiermap
