// Parquet files in other stores: an object in S3, which may not answer.
#ifdef TIERMAP_HAS_S3
#include <gtest/gtest.h>

#include <cerrno>

#include "parquet/parquet_files.hpp"
#include "s3/strict_server.hpp"
#include "store/reference_check.hpp"

namespace tiermap {
namespace {

using ParquetInStoreTest = ParquetTest;

TEST_F(ParquetInStoreTest, AnObjectThatCannotBeReadIsNotSaidToBeNoParquetFile) {
  StrictServer server;
  ASSERT_TRUE(server.runs()) << "python3 does not run tests/s3/strict_server.py";
  server.load("points", read_file(copy("points.parquet")));
  const std::string object = server.url("points", "retries=0");
  std::string escaped;
  for (const char character : object) {
    escaped += character == '&' ? "%26" : std::string(1, character);
  }
  const std::string url = "parquet:?columns=x,y,z&store=" + escaped;
  expect_equal(*open_store(url, OpenMode::read_only), coordinates());
  server.fault("get", "etag", 1);  // As if it changed just then.
  const std::string said = refusal(url, ESTALE);
  expect_said(said, {"/points?", " cannot be read: Stale file handle: it was changed meanwhile: open it again"});
  EXPECT_EQ(said.find("no Parquet file"), std::string::npos) << said;
  server.load("points", "no such file");
  expect_said(refusal(url, EINVAL), {"is no Parquet file that can be read"});
}

}  // namespace
}  // namespace tiermap
#endif
