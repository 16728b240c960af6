// What is wrong with a journal: every place, where opening it names the first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tiermap/heap_check.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Each of the two copies of the commit record. One that is damaged does no harm as long as the other is not.
void check_commit_records(Store& journal, std::uint64_t identity, HeapCheck& check);

/// `refusal` is why it could not be opened; at least one finding comes of it. Throws StoreError for a journal of
/// another version.
void check_damaged_journal(const std::shared_ptr<Store>& journal, Store& base, std::uint64_t identity,
                           const std::string& refusal, HeapCheck& check);

}  // namespace tiermap
