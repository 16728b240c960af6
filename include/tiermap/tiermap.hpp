// All of Tiermap's C++ interface, but for tiermap/heap.hpp, which needs Boost's headers.
#pragma once

#include "tiermap/access_source.hpp"      // IWYU pragma: export
#include "tiermap/cache.hpp"              // IWYU pragma: export
#include "tiermap/error.hpp"              // IWYU pragma: export
#include "tiermap/options.hpp"            // IWYU pragma: export
#include "tiermap/region.hpp"             // IWYU pragma: export
#include "tiermap/serialized_vector.hpp"  // IWYU pragma: export
#include "tiermap/statistics.hpp"         // IWYU pragma: export
#include "tiermap/store.hpp"              // IWYU pragma: export
#include "tiermap/transaction.hpp"        // IWYU pragma: export
#include "tiermap/vector.hpp"             // IWYU pragma: export
#include "tiermap/version.hpp"            // IWYU pragma: export
