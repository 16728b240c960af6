#include "ycsb/pool_transaction.hpp"

#include <cstring>

#include "ycsb/redo_log.hpp"

namespace tiermap {
namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);
/// So many equal words between different ones are logged too: the head of another change is no shorter.
constexpr std::size_t bridged_words = sizeof(ChangeHead) / word_bytes;

/// Where the next run of different words begins and ends, from `word` on; both `words` if there is none.
struct Run {
  std::size_t begin;
  std::size_t end;
};
Run next_difference(const std::byte* before, const std::byte* after, std::size_t word, std::size_t words) {
  const auto differs = [&](std::size_t index) {
    return std::memcmp(before + index * word_bytes, after + index * word_bytes, word_bytes) != 0;
  };
  while (word < words && !differs(word)) {
    ++word;
  }
  Run run{word, word};
  for (; word < words && word - run.end <= bridged_words; ++word) {
    if (differs(word)) {
      run.end = word + 1;
    }
  }
  return run;
}

}  // namespace

std::byte* PoolTransaction::page_for_edit(std::uint64_t number) {
  std::unique_ptr<Page>& page = pages_[number];
  if (page == nullptr) {
    page = std::make_unique<Page>();
    std::memcpy(page->data(), pool_.data() + number * page_bytes, page_bytes);
  }
  return page->data();
}

void PoolTransaction::replace(std::uint64_t offset, std::span<const std::byte> bytes) {
  append_change(changes_, offset, bytes);
}

std::span<const std::byte> PoolTransaction::changes() {
  for (const auto& [number, page] : pages_) {
    const std::byte* before = pool_.data() + number * page_bytes;
    constexpr std::size_t words = page_bytes / word_bytes;
    for (Run run = next_difference(before, page->data(), 0, words); run.begin < words;
         run = next_difference(before, page->data(), run.end, words)) {
      append_change(changes_, number * page_bytes + run.begin * word_bytes,
                    std::span(*page).subspan(run.begin * word_bytes, (run.end - run.begin) * word_bytes));
    }
  }
  pages_.clear();
  return changes_;
}

}  // namespace tiermap
