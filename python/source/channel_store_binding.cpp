// ChannelStore for Python: a Store with one member more.
#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "channel_store.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace tiermap::python {
namespace {

struct ChannelStoreHandle : StoreHandle {
  std::shared_ptr<ChannelStore> channels;
};

}  // namespace

void bind_channel_store(nb::module_& module) {
  module.def("lose_patience", &lose_patience);
  module.def("forget_channel_stores", &forget_channel_stores);
  nb::class_<ChannelStoreHandle, StoreHandle>(module, "ChannelStore")
      .def(
          "__init__",
          [](ChannelStoreHandle* self, const std::vector<int>& sockets, int memory, std::uint64_t slot_bytes,
             int control, int process, std::uint64_t size, bool writable, const std::string& name, double patience) {
            auto store = std::make_shared<ChannelStore>(ChannelEnds{.sockets = sockets,
                                                                    .memory = memory,
                                                                    .slot_bytes = slot_bytes,
                                                                    .control = control,
                                                                    .process = process},
                                                        size, writable, name, patience);
            new (self) ChannelStoreHandle{{store}, store};
          },
          nb::kw_only(), nb::arg("sockets"), nb::arg("memory"), nb::arg("slot_bytes"), nb::arg("control"),
          nb::arg("process"), nb::arg("size"), nb::arg("writable"), nb::arg("name"), nb::arg("patience"))
      .def_prop_ro("control", [](const ChannelStoreHandle& self) { return self.channels->control(); })
      .def_prop_ro("last_error", [](const ChannelStoreHandle& self) {
        const std::string text = self.channels->last_error();
        // What is too long is cut, perhaps inside of a character.
        PyObject* const decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
        return nb::steal<nb::str>(decoded);
      });
}

}  // namespace tiermap::python
