#include "gray-scott/halo.hpp"

#include <algorithm>
#include <span>

namespace tiermap {
namespace {

/// The largest of which a plane has a whole number, so that few messages bring it and nothing else.
std::uint64_t page_bytes_for(std::uint64_t plane_bytes) {
  constexpr std::uint64_t least = 4096;
  constexpr std::uint64_t most = std::uint64_t{1} << 20U;
  return std::clamp(plane_bytes & (~plane_bytes + 1), least, most);
}

SharedVectorOptions options_for(std::uint64_t page_bytes, std::uint64_t place_bytes) {
  constexpr std::uint64_t places_of_rank = 4;
  constexpr std::uint64_t least_budget = std::uint64_t{1} << 20U;
  SharedVectorOptions options;
  options.page_size_bytes = page_bytes;
  options.stripe_bytes = places_of_rank * place_bytes;
  options.budget_bytes = std::max(least_budget, 2 * options.stripe_bytes + 16 * page_bytes);
  options.read_ahead_bytes = 0;
  return options;
}

}  // namespace

template <typename T>
Halo<T>::Halo(Ranks& ranks, std::uint64_t size)
    : ranks_(ranks),
      plane_cells_(2 * size * size),
      page_bytes_(page_bytes_for(plane_cells_ * sizeof(T))),
      place_cells_((plane_cells_ * sizeof(T) + page_bytes_ - 1) / page_bytes_ * page_bytes_ / sizeof(T)),
      planes_(SharedVector<T>::create(ranks.job(), "halo", 4 * place_cells_ * ranks.count(),
                                      options_for(page_bytes_, place_cells_ * sizeof(T)))) {}

template <typename T>
void Halo<T>::exchange(const T* lowest, const T* highest) {
  turn_ = 1 - turn_;
  write(Side::lowest, lowest);
  write(Side::highest, highest);
  ranks_.barrier();
}

template <typename T>
void Halo<T>::write(Side side, const T* plane) {
  auto writing = planes_.write({index(ranks_.rank(), side), plane_cells_});
  for (std::span<T> piece = writing.next(); !piece.empty(); piece = writing.next()) {
    std::copy_n(plane, piece.size(), piece.data());
    plane += piece.size();
  }
  writing.commit();
}

template class Halo<float>;
template class Halo<double>;

}  // namespace tiermap
