#include "dbscan/shared_row_exchange.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

using Words = SharedVector<std::uint32_t>;

/// Where what goes from one rank to another begins in the other's place, and how much comes to each rank. What a rank
/// has for itself stays with it.
class Places {
 public:
  Places(Ranks& ranks, const std::vector<std::uint64_t>& counts)
      : ranks_(ranks.count()), counts_(ranks.gather(counts)) {}

  std::uint64_t count(std::uint32_t from, std::uint32_t to) const {
    return from == to ? 0 : counts_[from * ranks_ + to];
  }
  std::uint64_t first(std::uint32_t from, std::uint32_t to) const {
    std::uint64_t before = 0;
    for (std::uint32_t rank = 0; rank < from; ++rank) {
      before += count(rank, to);
    }
    return before;
  }
  std::uint64_t all(std::uint32_t to) const { return first(static_cast<std::uint32_t>(ranks_), to); }
  std::uint64_t most() const {
    std::uint64_t most = 0;
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      most = std::max(most, all(to));
    }
    return most;
  }

 private:
  const std::uint64_t ranks_;
  const std::vector<std::uint64_t> counts_;
};

SharedVectorOptions options_for(std::uint64_t place_bytes) {
  constexpr std::uint64_t least_page = 4096;
  constexpr std::uint64_t most_page = std::uint64_t{256} << 10U;
  constexpr std::uint64_t pages_of_place = 16;
  SharedVectorOptions options;
  options.page_size_bytes = std::clamp(std::bit_floor(place_bytes / pages_of_place), least_page, most_page);
  options.stripe_bytes =
      (place_bytes + options.page_size_bytes - 1) / options.page_size_bytes * options.page_size_bytes;
  options.budget_bytes = 64 * options.page_size_bytes;
  options.advice = Advice::sequential;
  return options;
}

/// One rank's rows on their way to another.
class Outlet {
 public:
  Outlet(Words& words, VectorRange range) : writer_(words.write(range)) {}
  void send(const void* row, std::uint64_t words) {
    const auto* next = static_cast<const std::uint32_t*>(row);
    while (words > 0) {
      if (piece_.empty()) {
        piece_ = writer_.next();
      }
      const std::size_t here = std::min<std::size_t>(words, piece_.size());
      std::copy_n(next, here, piece_.data());
      piece_ = piece_.subspan(here);
      next += here;
      words -= here;
    }
  }
  void commit() { writer_.commit(); }

 private:
  SharedWriter<std::uint32_t> writer_;
  std::span<std::uint32_t> piece_;
};

}  // namespace

void SharedRowExchange::exchange(const Rows& rows) {
  const Places places(ranks_, rows.counts);
  rows.expect(places.all(rank()) + rows.counts[rank()]);
  if (places.most() == 0) {
    rows.produce([&](std::uint32_t, const void* row) { rows.consume(rank(), static_cast<const std::byte*>(row)); });
    return;
  }
  const std::uint64_t row_words = rows.row_bytes / sizeof(std::uint32_t);
  const SharedVectorOptions options = options_for(places.most() * rows.row_bytes);
  const std::uint64_t place_words = options.stripe_bytes / sizeof(std::uint32_t);
  Words words = Words::create(ranks_.job(), "rows", place_words * ranks(), options);
  std::vector<std::unique_ptr<Outlet>> outlets(ranks());
  for (std::uint32_t to = 0; to < ranks(); ++to) {
    if (places.count(rank(), to) > 0) {
      outlets[to] = std::make_unique<Outlet>(words, VectorRange{to * place_words + places.first(rank(), to) * row_words,
                                                                places.count(rank(), to) * row_words});
    }
  }
  rows.produce([&](std::uint32_t to, const void* row) {
    if (to == rank()) {
      rows.consume(to, static_cast<const std::byte*>(row));
    } else {
      outlets[to]->send(row, row_words);
    }
  });
  for (const std::unique_ptr<Outlet>& outlet : outlets) {
    if (outlet != nullptr) {
      outlet->commit();
    }
  }
  outlets.clear();
  ranks_.barrier();
  const std::uint32_t* row = words.data() + rank() * place_words;
  for (std::uint32_t from = 0; from < ranks(); ++from) {
    for (std::uint64_t count = places.count(from, rank()); count > 0; --count, row += row_words) {
      rows.consume(from, reinterpret_cast<const std::byte*>(row));
    }
  }
  messages_.add(words.statistics());
  words.destroy();
}

}  // namespace tiermap
