#include "gray-scott/halo.hpp"

#include <algorithm>

namespace tiermap {
namespace {

SharedVectorOptions options_for(std::uint64_t place_bytes) {
  constexpr std::uint64_t places_of_rank = 4;
  SharedVectorOptions options;
  options.stripe_bytes = places_of_rank * place_bytes;
  options.budget_bytes = std::uint64_t{1} << 20U;  // Planes are copied out and in: no page of it is ever in memory.
  return options;
}

}  // namespace

template <typename T>
Halo<T>::Halo(Ranks& ranks, std::uint64_t size)
    : ranks_(ranks),
      place_cells_(whole_pages(2 * size * size * sizeof(T)) / sizeof(T)),
      below_(2 * size * size),
      above_(2 * size * size),
      planes_(SharedVector<T>::create(ranks.job(), "halo", 4 * place_cells_ * ranks.count(),
                                      options_for(place_cells_ * sizeof(T)))) {
  planes_.set_phase(Phase::local);
}

template <typename T>
void Halo<T>::exchange(const T* lowest, const T* highest) {
  turn_ = 1 - turn_;
  planes_.copy_from({lowest, below_.size()}, place(ranks_.rank(), Side::lowest));
  planes_.copy_from({highest, above_.size()}, place(ranks_.rank(), Side::highest));
  ranks_.barrier();
  const std::uint32_t ranks = ranks_.count();
  planes_.copy_to(below_, place((ranks_.rank() + ranks - 1) % ranks, Side::highest));
  planes_.copy_to(above_, place((ranks_.rank() + 1) % ranks, Side::lowest));
}

template class Halo<float>;
template class Halo<double>;

}  // namespace tiermap
