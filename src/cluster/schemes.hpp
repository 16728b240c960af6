// All schemes that open_store() knows.
#pragma once

#include "store/registry.hpp"

namespace tiermap {

StoreRegistry built_in_stores();

}  // namespace tiermap
