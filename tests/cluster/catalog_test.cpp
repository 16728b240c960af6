// What a server's configuration may not have together.
#include "cluster/server/catalog.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "platform/memory_promise.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

class CatalogTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return std::filesystem::absolute(directory / name).string(); }
  /// What is said of two data sets on these stores; "" if they are taken.
  static std::string refusal_of(const std::string& first, const std::string& second, bool read_only = false) {
    ServerOptions options;
    for (const auto& [name, store] : {std::pair{"first", first}, std::pair{"second", second}}) {
      ServedDataSet set;
      set.name = name;
      set.store = store;
      set.bytes = read_only ? 0 : 1 << 20;
      set.read_only = read_only;
      options.data_sets.push_back(set);
    }
    try {
      const Catalog catalog(options);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  const TemporaryDirectory directory{"."};
};

TEST_F(CatalogTest, TwoDataSetsOnOneFileAreRefusedByTheirNames) {
  const std::string file = path("file");
  std::filesystem::create_symlink("file", path("other"));
  for (const std::string& second : {file, "file://" + file, path("other"), "concat:" + file}) {
    EXPECT_EQ(refusal_of(file, second), "data sets 'first' (" + file + ") and 'second' (" + second +
                                            ") are on one file: leave one of them out, give it another file, or make "
                                            "both read_only");
  }
}

TEST_F(CatalogTest, WhatDataSetsMayTakeOfTheMemoryIsLeftToNoTier) {
  const std::uint64_t before = MemoryPromise::left_bytes();
  ServerOptions options;
  options.memory_bytes = before / 2;
  const Catalog catalog(options);
  EXPECT_LT(MemoryPromise::left_bytes(), before / 4 * 3);
}

TEST_F(CatalogTest, AFileBehindTiersOrAHeaderIsThatFile) {
  const std::string file = path("file");
  std::ofstream(directory / "tiers.yaml") << "block: 64KiB\ntiers:\n  - {name: near, capacity: 1MiB}\n";
  EXPECT_NE(refusal_of("tiered:" + path("tiers.yaml") + "?store=" + file, file).find("are on one file"),
            std::string::npos);
  const std::string array = path("array.npy");
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (131072,), }";
  header.resize(117, ' ');
  std::ofstream(array) << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << '\n' << std::string(1 << 20, '\0');
  EXPECT_NE(refusal_of("npy:" + array, array).find("are on one file"), std::string::npos);
}

TEST_F(CatalogTest, OthersAreTaken) {
  EXPECT_EQ(refusal_of(path("one"), path("other")), "");
  EXPECT_EQ(refusal_of(path("one"), path("one"), true), "");  // Nobody writes it.
  EXPECT_EQ(refusal_of("memory:1MiB", "memory:1MiB"), "");
}

std::string refusal_by(const std::function<void()>& action) {
  try {
    action();
    return "";
  } catch (const CatalogRefusal& refusal) {
    return refusal.text;
  }
}

/// A name that is written wrong is found out by whoever writes it, and not by whoever may not read.
TEST_F(CatalogTest, WhoIsNoUserIsNoReader) {
  ServerOptions options;
  options.memory_bytes = 1 << 20;
  CreateForm form;
  form.name = "points";
  form.readers = {"bob"};
  EXPECT_EQ(refusal_by([&] { Catalog(options).create("", form, 4096); }),
            "data set 'points' cannot have 'bob' among its readers: this server has no users, and everybody may do "
            "everything: leave readers out");
  options.users = {{"ann", {"ann's secret", false}}, {"bob", {"bob's secret", false}}};
  Catalog catalog(options);
  form.writers = {"*", "Ann"};
  EXPECT_EQ(refusal_by([&] { catalog.create("ann", form, 4096); }),
            "data set 'points' cannot have 'Ann' among its writers, who is no user of this server: name its users, or "
            "*");
  form.writers = {"*"};
  EXPECT_EQ(refusal_by([&] { catalog.create("ann", form, 4096); }), "");
}

TEST_F(CatalogTest, WhatTheConfigurationHasIsDroppedThere) {
  ServerOptions options;
  options.users = {{"ann", {"ann's secret", false}}};
  ServedDataSet set;
  set.name = "points";
  set.store = "memory:1MiB";
  set.rights.writers = {"*"};
  options.data_sets.push_back(set);
  Catalog catalog(options);
  EXPECT_EQ(refusal_by([&] { catalog.drop("ann", "points"); }),
            "data set 'points' is in the server's configuration: take it out there");
}

/// Takes its time to become another size.
class SlowlyResized final : public Store {
 public:
  std::uint64_t size_bytes() const override { return 4096; }
  std::int64_t read(void*, std::size_t, std::uint64_t) override { return 0; }
  bool writable() const override { return true; }
  std::string name() const override { return "slow"; }
  int resize(std::uint64_t) override {
    begun.set_value();
    may_end.get_future().wait();
    return 0;
  }
  std::promise<void> begun;
  std::promise<void> may_end;
};

/// The thread that attaches is the one that answers everybody.
TEST_F(CatalogTest, WhileOneDataSetIsResizedOthersAreAttached) {
  const auto slow = std::make_shared<SlowlyResized>();
  ServerOptions options;
  options.memory_bytes = 1 << 20;
  ServedDataSet set;
  set.name = "slow";
  set.opened = slow;
  options.data_sets.push_back(set);
  Catalog catalog(options);
  CreateForm form;
  form.name = "points";
  catalog.create("", form, 4096);
  const std::shared_ptr<Attachment> attachment = catalog.attach("", "here", "slow", true);
  std::thread resizing([&] { EXPECT_EQ(catalog.resize(attachment->set(), 8192, 8192), 0); });
  slow->begun.get_future().wait();
  auto other = std::async(std::launch::async, [&] { catalog.attach("", "there", "points", true); });
  EXPECT_EQ(other.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  slow->may_end.set_value();
  resizing.join();
}

/// It would be one that the configuration names, and would take any room.
TEST_F(CatalogTest, WhatWasMadeSmallIsStillOneThatWasMade) {
  ServerOptions options;
  options.memory_bytes = 1 << 20;
  Catalog catalog(options);
  CreateForm form;
  form.name = "points";
  catalog.create("", form, 8192);
  {
    const std::shared_ptr<Attachment> attachment = catalog.attach("", "here", "points", true);
    EXPECT_EQ(catalog.resize(attachment->set(), 0, 0), 0);
    EXPECT_EQ(catalog.resize(attachment->set(), 2 << 20, 2 << 20), -ENOSPC);
    EXPECT_EQ(catalog.resize(attachment->set(), 1 << 20, 1 << 20), 0);
    form.name = "more";
    EXPECT_THROW(catalog.create("", form, 1), CatalogRefusal);
    EXPECT_EQ(catalog.resize(attachment->set(), 0, 0), 0);
  }
  EXPECT_NO_THROW(catalog.drop("", "points"));
  EXPECT_NO_THROW(catalog.create("", form, 1 << 20));
}

TEST_F(CatalogTest, RoomForWhatCouldNotBeMadeLongerIsThereAgain) {
  constexpr std::uint64_t too_long = std::uint64_t{1} << 61U;  // For the table of its checksums.
  ServerOptions options;
  options.directory = path("");
  options.directory_bytes = too_long + (1 << 20);
  Catalog catalog(options);
  CreateForm form;
  form.name = "set";
  catalog.create("", form, 4096);
  const std::shared_ptr<Attachment> attachment = catalog.attach("", "", "set", true);
  EXPECT_THROW(catalog.resize(attachment->set(), too_long, too_long), Error);
  form.name = "other";
  EXPECT_NO_THROW(catalog.create("", form, 2 << 20));
}

}  // namespace
}  // namespace tiermap
