// Cache: the memory that arrays share.
#include <nanobind/nanobind.h>

#include <utility>

#include "bindings.hpp"
#include "config/resolve.hpp"
#include "released_gil.hpp"
#include "tiermap/error.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace tiermap::python {
namespace {

using Number = std::optional<std::uint32_t>;

const char* const fault_mode_names[] = {"auto", "notify", "self-serving", "kernel"};
const char* const placement_names[] = {"auto", "move", "copy"};

template <typename Value, std::size_t count>
std::optional<Value> named(const char* what, const std::optional<std::string>& name,
                           const char* const (&names)[count]) {
  if (!name.has_value()) {
    return std::nullopt;
  }
  std::string all;
  for (std::size_t index = 0; index < count; ++index) {
    if (*name == names[index]) {
      return static_cast<Value>(index);
    }
    all += std::string(index == 0 ? "" : ", ") + names[index];
  }
  throw OptionError(std::string(what) + " '" + *name + "' is unknown: choose from " + all);
}

void make_cache(CacheHandle* self, std::optional<std::uint64_t> budget, const std::optional<std::string>& fault_mode,
                const std::optional<std::string>& placement, const std::optional<std::string>& policy, Number hot_share,
                Number unmapped_share, Number high_watermark, Number low_watermark, Number fillers, Number evictors,
                Number managers, Number spin, std::optional<bool> adapt, const std::optional<std::string>& name,
                const std::optional<std::string>& trace) {
  CacheOptions options;
  options.budget_bytes = budget;
  options.fault_mode = named<FaultMode>("fault mode", fault_mode, fault_mode_names);
  options.placement = named<Placement>("placement", placement, placement_names);
  options.policy = policy;
  options.hot_share_percent = hot_share;
  options.unmapped_share_percent = unmapped_share;
  options.high_watermark_percent = high_watermark;
  options.low_watermark_percent = low_watermark;
  options.fillers = fillers;
  options.evictors = evictors;
  options.managers = managers;
  options.spin_microseconds = spin;
  options.adapt_budget = adapt;
  options.name = name;
  options.trace_file = trace;
  const ReleasedGil released;
  auto cache = std::make_unique<Cache>(options);
  auto kernel = std::make_shared<KernelCache>(budget.value_or(cache->budget_bytes()), name);
  new (self) CacheHandle{std::move(cache), std::move(kernel)};
}

}  // namespace

void bind_cache(nb::module_& module) {
  using Released = nb::call_guard<ReleasedGil>;
  const auto none = nb::none();
  // For caches that say none: by the environment, or by a file.
  module.def("is_budget_said", [] { return resolve(CacheOptions()).budget_chosen; });
  nb::class_<CacheHandle>(module, "Cache")
      .def("__init__", &make_cache, nb::arg("budget") = none, nb::arg("fault_mode") = none, nb::arg("placement") = none,
           nb::arg("policy") = none, nb::arg("hot_share") = none, nb::arg("unmapped_share") = none,
           nb::arg("high_watermark") = none, nb::arg("low_watermark") = none, nb::arg("fillers") = none,
           nb::arg("evictors") = none, nb::arg("managers") = none, nb::arg("spin") = none, nb::arg("adapt") = none,
           nb::arg("name") = none, nb::arg("trace") = none)
      .def_prop_rw(
          "budget", [](const CacheHandle& self) { return self.cache->budget_bytes(); },
          [](CacheHandle& self, std::uint64_t bytes) {
            const ReleasedGil released;
            self.cache->set_budget_bytes(bytes);
            self.kernel->set_budget_bytes(bytes);
          })
      .def_prop_ro("minimum_budget", [](const CacheHandle& self) { return self.cache->minimum_budget_bytes(); })
      .def_prop_ro(
          "fault_mode",
          [](const CacheHandle& self) { return fault_mode_names[static_cast<std::size_t>(self.cache->fault_mode())]; })
      .def_prop_ro("fault_mode_reason", [](const CacheHandle& self) { return self.cache->fault_mode_reason(); })
      .def("statistics", [](const CacheHandle& self) { return statistics_dict(self.cache->statistics()); })
      // Regions go on without it; the threads end with the last of them.
      .def("release", [](CacheHandle& self) { self.cache.reset(); }, Released());
}

}  // namespace tiermap::python
