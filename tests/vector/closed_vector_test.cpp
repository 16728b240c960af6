// Vectors that are not there any more: closed, moved to another, or the parent's of a child of fork(). One line that
// says so, and no crash.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "store/temporary_directory.hpp"
#include "tiermap/serialized_vector.hpp"
#include "tiermap/vector.hpp"
#include "vector/text_serializer.hpp"

namespace tiermap {
namespace {

using Numbers = Vector<std::uint64_t>;
using Texts = SerializedVector<std::string, TextSerializer>;

VectorOptions small() {
  VectorOptions options;
  options.budget_bytes = 4 << 20;
  options.page_size_bytes = 16 << 10;
  return options;
}

void expect_refused(const std::function<void()>& work, const std::string& remedy, int error_number = EBADF) {
  try {
    work();
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), error_number) << error.what();
    EXPECT_NE(std::string(error.what()).find(remedy), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

class ClosedVectorTest : public testing::Test {
 protected:
  static void expect_all_refused(Numbers& numbers, const std::string& remedy) {
    const std::vector<std::function<void()>> works = {
        [&] { static_cast<void>(numbers.tier_reports()); },
        [&] { static_cast<void>(numbers.at(0)); },
        [&] { static_cast<void>(numbers.span({0, 0})); },
        [&] { static_cast<void>(numbers.view(numbers.size())); },
        [&] { numbers.append(1); },
        [&] { numbers.append().commit(); },
        [&] { numbers.resize(0); },
        [&] { numbers.resize(numbers.size()); },
        [&] { numbers.resize(5, 7); },
        [&] { numbers.copy_from(std::vector<std::uint64_t>(1)); },
        [&] {
          std::vector<std::uint64_t> to(1);
          numbers.copy_to(to);
        },
        [&] { numbers.bound_memory(8 << 20); },
        [&] { numbers.sync(); },
        [&] { numbers.prefetch({0, 0}); },
        [&] { numbers.read(); },
        [&] { numbers.write(); },
        [&] { numbers.read_write({0, 0}); },
        [&] { numbers.read(Strided({0, 0}, 3)); },
        [&] { numbers.read(Random({0, 0}, 1, 0)); },
    };
    for (std::size_t number = 0; number < works.size(); ++number) {
      SCOPED_TRACE(number);
      expect_refused(works[number], remedy);
    }
    EXPECT_EQ(numbers.data(), nullptr);
    EXPECT_EQ(numbers.begin(), numbers.end());
    EXPECT_TRUE(numbers.span().empty());
    EXPECT_EQ(numbers.storage().read_microseconds({0, 1}), 0);
    numbers.storage().score({0, 1}, 1, 1);
    numbers.close();
  }
  static void expect_all_refused(Texts& texts, const std::string& remedy) {
    const std::vector<std::function<void()>> works = {
        [&] { static_cast<void>(texts[0]); },
        [&] { static_cast<void>(texts.at(0)); },
        [&] { static_cast<void>(texts.record(0)); },
        [&] { texts.append("more"); },
        [&] { texts.append(""); },
        [&] { texts.append().commit(); },
        [&] { texts.set(0, "other"); },
        [&] { texts.truncate(100); },
        [&] { texts.for_each([](const std::string&) {}); },
        [&] { texts.copy_to(texts); },
        [&] { static_cast<void>(texts.unused_bytes()); },
        [&] { texts.bound_memory(8 << 20); },
        [&] { texts.sync(); },
        [&] { texts.read(); },
        [&] { texts.write(Strided({0, 0}, 1)); },
        [&] { texts.read_write(); },
        [&] { texts.read(Random({0, 0}, 1, 0)); },
    };
    for (std::size_t number = 0; number < works.size(); ++number) {
      SCOPED_TRACE(number);
      expect_refused(works[number], remedy);
    }
    texts.close();
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_ / "vector";
};

TEST_F(ClosedVectorTest, a_closed_one_says_so) {
  auto numbers = Numbers::create(path_, 10, small());
  numbers.close();
  EXPECT_EQ(numbers.size(), 10U);
  expect_all_refused(numbers, "vector " + path_ + " is closed: open it again");
  expect_refused([&] { numbers.region().sync(); }, "the region is not mapped", EINVAL);
}

TEST_F(ClosedVectorTest, one_on_tiers_says_so_too) {
  write_file(directory_ / "tiers.yaml", "tiers: [{name: dram, capacity: 2MiB}]\n");
  const std::string url = "tiered://" + directory_.encoded() + "/tiers.yaml?store=" + path_;
  auto numbers = Numbers::create(url, 10, small());
  EXPECT_EQ(numbers.tier_reports().size(), 2U);
  numbers.close();
  expect_all_refused(numbers, "is closed: open it again");
}

TEST_F(ClosedVectorTest, one_that_was_moved_says_so) {
  auto numbers = Numbers::create(path_, 10, small());
  const Numbers other = std::move(numbers);
  // NOLINTBEGIN(bugprone-use-after-move): what that does is the matter.
  EXPECT_EQ(numbers.size(), 0U);
  EXPECT_EQ(numbers.capacity(), 0U);
  EXPECT_FALSE(numbers.writable());
  EXPECT_EQ(numbers.url(), "");
  expect_all_refused(numbers, "the vector was moved to another");
  expect_refused([&] { numbers.destroy(); }, "the vector was moved to another");
  expect_refused([&] { numbers.region().sync(); }, "the vector was moved to another");
  numbers = Numbers::temporary(3, small());
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(numbers.at(2), 0U);
  EXPECT_EQ(other.at(9), 0U);
}

TEST_F(ClosedVectorTest, a_transaction_of_one_that_was_moved_says_so_and_ends) {
  auto numbers = Numbers::create(path_, 100'000, small());
  Numbers other = Numbers::temporary(1, small());
  {
    auto writing = numbers.write();
    std::ranges::fill(writing.next(), 5U);
    other = std::move(numbers);
    expect_refused([&] { writing.next(); }, "the vector was moved to another");
    expect_refused([&] { writing.commit(); }, "the vector was moved to another");
    expect_refused([&] { other.resize(10); }, "a transaction is open", EBUSY);
  }
  EXPECT_EQ(other.at(0), 5U);
  EXPECT_EQ(other.storage().open_transactions(), 0U);
  other.resize(10);
}

TEST_F(ClosedVectorTest, one_that_takes_the_place_of_another_has_none_of_its_transactions) {
  auto numbers = Numbers::create(path_, 100'000, small());
  {
    auto reading = numbers.read();
    numbers = Numbers::temporary(10, small());
  }
  EXPECT_EQ(numbers.storage().open_transactions(), 0U);
}

TEST_F(ClosedVectorTest, a_serialized_one_says_so) {
  SerializedVectorOptions options;
  options.vector = small();
  auto texts = Texts::create(path_, options);
  texts.append("one");
  const Texts other = std::move(texts);
  // NOLINTBEGIN(bugprone-use-after-move): what that does is the matter.
  EXPECT_EQ(texts.size(), 0U);
  EXPECT_EQ(texts.url(), "");
  EXPECT_EQ(texts.record_bytes(), 0U);
  expect_all_refused(texts, "the vector was moved to another");
  expect_refused([&] { texts.destroy(); }, "the vector was moved to another");
  texts = Texts::temporary(options);
  // NOLINTEND(bugprone-use-after-move)
  texts.append("two");
  texts.close();
  expect_all_refused(texts, "is closed: open it again");
  EXPECT_EQ(other.at(0), "one");
}

TEST_F(ClosedVectorTest, a_child_does_not_change_what_its_parent_has) {
  auto numbers = Numbers::create(path_, 100'000, small());
  std::fill(numbers.begin(), numbers.end(), 5);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string remedy = "belongs to the process that forked this one: open it again in the child";
    expect_refused([&] { numbers.sync(); }, remedy, ECHILD);
    expect_refused([&] { numbers.resize(1); }, remedy, ECHILD);
    expect_refused([&] { numbers.destroy(); }, remedy, ECHILD);
    expect_refused([&] { numbers.close(); }, remedy, ECHILD);
    {
      const Numbers gone = std::move(numbers);
    }
    ::_exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::filesystem::file_size(path_), 100'000 * sizeof(std::uint64_t));
  numbers.close();
  EXPECT_EQ(Numbers::open_read_only(path_, small()).at(99'999), 5U);
}

}  // namespace
}  // namespace tiermap
