// Whether elements are what a store's format says of them.
#pragma once

#include <optional>
#include <string>

#include "tiermap/store.hpp"

namespace tiermap {

/// Of fields, and of elements that are no numbers here, the size is compared; such an element may be a whole row. Where
/// `there` says nothing, anything goes. Throws StoreError (EINVAL): "`holder` holds elements of type i4, ..., and not
/// f8: `remedy`".
void require_elements(const std::string& holder, const ElementLayout& wanted, const std::optional<ElementLayout>& there,
                      const std::string& remedy);

}  // namespace tiermap
