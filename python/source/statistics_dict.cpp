// Statistics as plain Python values.
#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "tiermap/statistics.hpp"

namespace nb = nanobind;

namespace tiermap::python {

nb::dict statistics_dict(const Statistics& statistics) {
  nb::dict result;
  result["budget_bytes"] = statistics.budget_bytes;
  result["resident_bytes"] = statistics.resident_bytes;
  result["mapped_bytes"] = statistics.mapped_bytes;
  result["dirty_bytes"] = statistics.dirty_bytes;
  for (std::size_t index = 0; index < counter_count; ++index) {
    result[counter_name(static_cast<Counter>(index))] = statistics.counters[index];
  }
  nb::dict stages;
  for (std::size_t index = 0; index < stage_count; ++index) {
    const LatencyHistogram& times = statistics.stages[index];
    nb::dict stage;
    stage["count"] = times.count();
    stage["median_nanoseconds"] = times.quantile_nanoseconds(0.5);
    stage["p99_nanoseconds"] = times.quantile_nanoseconds(0.99);
    stages[stage_name(static_cast<Stage>(index))] = stage;
  }
  result["stages"] = stages;
  return result;
}

}  // namespace tiermap::python
