// The function that a snapshot calls: what it throws, and what it must not do.
#include "heap/heap_fixture.hpp"

namespace tiermap {
namespace {

struct Stop {};

class HeapSnapshot : public HeapTest, public testing::WithParamInterface<bool> {
 protected:
  HeapSnapshot() {
    HeapOptions options = small();
    options.checkpoints = GetParam();
    heap_ = std::make_unique<Heap>(Heap::create(path_, options));
    heap_->construct<int>("answer")(1);
  }

  std::unique_ptr<Heap> heap_;
  const std::string copy_ = directory_ / "copy";
};

TEST_P(HeapSnapshot, leaves_nothing_when_the_function_throws) {
  EXPECT_THROW(heap_->snapshot(copy_, [] { throw Stop(); }), Stop);
  EXPECT_FALSE(std::filesystem::exists(copy_));
  heap_->snapshot(copy_, [] {});
  EXPECT_TRUE(Heap::consistent(copy_));
  *heap_->find<int>("answer") = 2;
  EXPECT_THROW(heap_->update_snapshot(copy_, [] { throw Stop(); }), Stop);
  EXPECT_TRUE(Heap::consistent(copy_)) << "as it was, or up to date";
  EXPECT_EQ(*Heap::open_read_only(copy_, small()).find<int>("answer"), GetParam() ? 1 : 2);
}

TEST_P(HeapSnapshot, tells_a_function_that_saves_the_heap) {
  const auto refused = [&](const std::function<void()>& call) {
    const std::string text = refusal<OptionError>([&] { heap_->snapshot(copy_, call); });
    EXPECT_TRUE(says(text, "cannot be saved or closed by the function"));
    EXPECT_FALSE(std::filesystem::exists(copy_));
  };
  refused([&] { heap_->checkpoint(); });
  refused([&] { heap_->close(); });
  refused([&] { heap_->snapshot(directory_ / "another"); });
  refused([&] { heap_->update_snapshot(directory_ / "another"); });
  EXPECT_NO_THROW(heap_->checkpoint());
  EXPECT_NO_THROW(heap_->close());
}

INSTANTIATE_TEST_SUITE_P(Kinds, HeapSnapshot, testing::Bool(), [](const testing::TestParamInfo<bool>& information) {
  return std::string(information.param ? "with_checkpoints" : "without_checkpoints");
});

}  // namespace
}  // namespace tiermap
