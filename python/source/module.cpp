// The extension module tiermap._core: Tiermap's C++ interface for Python. What users see is written in Python above it.
#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "config/size.hpp"
#include "platform/memory_promise.hpp"
#include "released_gil.hpp"
#include "tiermap/version.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

namespace nb = nanobind;

NB_MODULE(_core, module) {
  // Arrays may live until the interpreter has gone: their regions end with the process, as mmap's do.
  nb::set_leak_warnings(false);
  module.attr("version") = TIERMAP_VERSION;
  module.def("parse_size", &tiermap::parse_size, nb::arg("text"), nb::arg("what"));
  module.def(
      "parse_budget",
      [](std::string_view text, std::uint64_t own) {
        return tiermap::parse_budget(text, "budget", tiermap::MemoryPromise::left_bytes() + own);
      },
      nb::arg("text"), nb::arg("own"));
  module.def("format_size", &tiermap::format_size, nb::arg("bytes"));
  module.def("end_releases", &tiermap::python::end_releases);
  module.def("forget_releases", &tiermap::python::forget_releases);
  tiermap::python::bind_errors(module);
  tiermap::python::bind_stores(module);
  tiermap::python::bind_channel_store(module);
  tiermap::python::bind_cache(module);
  tiermap::python::bind_region(module);
  tiermap::python::bind_address_space(module);
  tiermap::python::bind_heap(module);
}
