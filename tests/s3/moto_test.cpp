// The same against a server that others wrote: made, changed in part, read in little memory, and not overwritten.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "s3/moto_server.hpp"
#include "store/reference_check.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

TEST(S3Moto, MadeChangedReadAndNotOverwritten) {
  if (!MotoServer::is_installed()) {
    GTEST_SKIP() << "moto[server] is not installed: scripts/moto.sh fetches it from PyPI";
  }
  const MotoServer server;
  ASSERT_TRUE(server.runs());
  std::string content = patterned(12'000'001);
  {
    const auto store = open_store(server.url("a key/of=some sort", "part=5MiB"), OpenMode::create, content.size());
    ASSERT_EQ(store->write(content.data(), content.size(), 0), static_cast<std::int64_t>(content.size()));
    ASSERT_EQ(store->flush(), 0);
  }
  const auto store = open_store(server.url("a key/of=some sort", "part=5MiB"), OpenMode::read_write);
  expect_equal(*store, {content.begin(), content.end()});
  ASSERT_EQ(store->write("changed", 7, 100), 7);
  content.replace(100, 7, "changed");
  ASSERT_EQ(store->flush(), 0);
  const auto reader = open_store(server.url("a key/of=some sort"), OpenMode::read_only);
  expect_equal(*reader, {content.begin(), content.end()});
  {
    VectorOptions options;
    options.budget_bytes = 1 << 20;
    options.page_size_bytes = 64 << 10;
    auto bytes = Vector<char>::open_read_only(server.url("a key/of=some sort"), options);
    std::uint64_t place = 0;
    bytes.read().for_each([&](char byte) { ASSERT_EQ(byte, content[place++]); });
    EXPECT_EQ(place, content.size());
  }
  const auto other = open_store(server.url("a key/of=some sort"), OpenMode::read_write);
  ASSERT_EQ(other->write("theirs", 6, 0), 6);
  ASSERT_EQ(other->flush(), 0);
  ASSERT_EQ(store->write("mine", 4, 0), 4);
  testing::internal::CaptureStderr();
  EXPECT_EQ(store->flush(), -ESTALE);
  char byte = 0;
  EXPECT_EQ(reader->read(&byte, 1, 5'000'000), -ESTALE);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("open it again"), std::string::npos);
  EXPECT_THROW(open_store(server.url("none"), OpenMode::read_only), StoreError);
  EXPECT_THROW(open_store(server.url("a key/of=some sort"), OpenMode::create), StoreError);
}

}  // namespace
}  // namespace tiermap
