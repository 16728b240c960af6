#include "vector/element_check.hpp"

#include <cerrno>

#include "tiermap/error.hpp"

namespace tiermap {

void require_elements(const std::string& holder, const ElementLayout& wanted, const std::optional<ElementLayout>& there,
                      const std::string& remedy) {
  if (!there) {
    return;
  }
  const std::string holds =
      holder + " holds elements of type " + there->type + ", of " + std::to_string(there->bytes) + " bytes";
  if (there->swapped) {
    throw StoreError(EINVAL, holds + " in the byte order of other machines: convert it with numpy's newbyteorder()");
  }
  // Bytes that are no numbers of the machine (Parquet's decimals are in the other order) are no larger numbers of T,
  // and what is counted in a unit of time is a whole number.
  const std::string_view other_kinds = wanted.bytes == 1 ? "biuf" : wanted.kind == 'f' ? "biufcmMV" : "biufcV";
  const bool numbers = wanted.kind != '\0' && other_kinds.find(there->kind) != std::string_view::npos;
  const bool row = wanted.kind == '\0' && wanted.bytes == there->row_bytes;
  if ((there->bytes != wanted.bytes && !row) || (numbers && there->kind != wanted.kind)) {
    throw StoreError(EINVAL, holds + ", and not " +
                                 (wanted.kind != '\0' ? wanted.kind + std::to_string(wanted.bytes)
                                                      : "of " + std::to_string(wanted.bytes) + " bytes") +
                                 ": " + remedy);
  }
}

}  // namespace tiermap
