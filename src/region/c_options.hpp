// From the option structs of the C interface to those of the C++ one. Both throw OptionError.
#pragma once

#include "tiermap/options.hpp"
#include "tiermap/tiermap.h"

namespace tiermap {

/// NULL is a struct with nothing set.
CacheOptions cache_options_from(const tiermap_cache_options* options);
RegionOptions region_options_from(const tiermap_region_options* options);
Advice advice_from(int advice);

}  // namespace tiermap
