// Heap: what is in a persistent heap and where. Its memory is a Region over its store, as that of any array.
#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "file_name.hpp"
#include "heap/heap_contents.hpp"
#include "released_gil.hpp"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace tiermap::python {
namespace {

/// Names and descriptions are any bytes: Python decides what text they are.
nb::bytes raw(const std::string& text) {
  return nb::bytes(text.data(), text.size());
}

nb::list objects(const HeapContents& self) {
  nb::list result;
  for (const HeapObject& object : self.objects()) {
    result.append(nb::make_tuple(raw(object.name), object.unique, raw(object.type_name), object.count,
                                 object.size_bytes, object.alignment, object.offset, raw(object.description)));
  }
  return result;
}

}  // namespace

void bind_heap(nb::module_& module) {
  using Released = nb::call_guard<ReleasedGil>;
  nb::class_<HeapContents>(module, "Heap")
      .def(
          "__init__", [](HeapContents* self, const FileName& path) { new (self) HeapContents(path.bytes); },
          nb::arg("path"), Released())
      .def("objects", &objects)
      .def_prop_ro("store", [](const HeapContents& self) { return StoreHandle{self.store()}; })
      .def_prop_ro("data_offset", &HeapContents::data_offset)
      .def_prop_ro("used_bytes", &HeapContents::used_bytes)
      .def_prop_ro("page_size", &HeapContents::page_size_bytes)
      .def_prop_ro("identity", &HeapContents::identity)
      .def_prop_ro("generation", &HeapContents::generation)
      .def_prop_ro("closed", &HeapContents::closed)
      .def_prop_ro("in_journal", &HeapContents::in_journal)
      .def("block_bytes", &HeapContents::block_bytes, nb::arg("offset"), Released())
      .def_static("block_bytes_for", &HeapContents::block_bytes_for, nb::arg("bytes"), nb::arg("alignment"));
}

}  // namespace tiermap::python
