// What this process and others tell each other of the plain files that they map.
#pragma once

#include "platform/mapping_table.hpp"

namespace tiermap::python {

/// Made at its first use, and never destroyed. Nothing where there is no /dev/shm: then nobody hears of others. Not to
/// be called with a mutex held that forks wait for.
MappingTable* mapping_table() noexcept;
/// The same if there is one already.
MappingTable* known_mapping_table() noexcept;
/// This process is about to end. Its last arrays may still go.
void leave_mapping_table() noexcept;

}  // namespace tiermap::python
