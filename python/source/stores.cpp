// Stores by URL: opened before they are mapped, so that headers can be read and sizes compared first.
#include <nanobind/nanobind.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "bindings.hpp"
#include "file_name.hpp"
#include "released_gil.hpp"
#include "tiermap/error.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace tiermap::python {
namespace {

OpenMode open_mode(const std::string& name) {
  if (name == "read") return OpenMode::read_only;
  if (name == "write") return OpenMode::read_write;
  if (name == "create") return OpenMode::create;
  if (name == "open_or_create") return OpenMode::open_or_create;
  throw OptionError("open mode '" + name + "' is unknown: choose from read, write, create, open_or_create");
}

StoreHandle open(const FileName& url, const std::string& mode, std::uint64_t create_bytes) {
  return {open_store(url.bytes, open_mode(mode), create_bytes)};
}

[[noreturn]] void fail(const Store& store, const char* what, std::int64_t error) {
  const int number = static_cast<int>(-error);
  throw StoreError(number, store.name() + " cannot be " + what + ": " + std::strerror(number));
}

nb::bytes read(const StoreHandle& self, std::uint64_t offset, std::size_t bytes) {
  std::vector<char> buffer(bytes);
  std::size_t done = 0;
  {
    const ReleasedGil released;
    while (done < bytes) {
      const std::int64_t got = self.store->read(buffer.data() + done, bytes - done, offset + done);
      if (got < 0) fail(*self.store, "read", got);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
  }
  return nb::bytes(buffer.data(), done);
}

void write(const StoreHandle& self, std::uint64_t offset, nb::bytes data) {
  const char* const bytes = data.c_str();
  const std::size_t count = data.size();
  const ReleasedGil released;
  for (std::size_t done = 0; done < count;) {
    const std::int64_t put = self.store->write(bytes + done, count - done, offset + done);
    if (put <= 0) fail(*self.store, "written", put == 0 ? -EIO : put);
    done += static_cast<std::size_t>(put);
  }
}

/// A type of numpy's; bytes of other kinds are bytes to it.
std::string dtype_of(char kind, std::uint64_t bytes, bool swapped) {
  const bool known = std::string_view("biufcS").find(kind) != std::string_view::npos;
  return (known ? std::string(swapped ? ">" : "<") + kind : std::string("V")) + std::to_string(bytes);
}

/// As numpy.dtype() takes it.
nb::dict record_dtype(const ElementLayout& layout) {
  nb::list names;
  nb::list formats;
  nb::list offsets;
  for (const ElementField& field : layout.fields) {
    names.append(field.name);
    formats.append(dtype_of(field.kind, field.bytes, layout.swapped));
    offsets.append(field.offset);
  }
  nb::dict dtype;
  dtype["names"] = names;
  dtype["formats"] = formats;
  dtype["offsets"] = offsets;
  dtype["itemsize"] = layout.bytes;
  return dtype;
}

/// What the store's format says of its elements, in numpy's words: a dtype and a shape.
nb::object elements(const StoreHandle& self) {
  const std::optional<ElementLayout> layout = self.store->element_layout();
  if (!layout || layout->shape.empty()) return nb::none();
  const nb::tuple shape(nb::cast(layout->shape));
  return layout->fields.empty() ? nb::make_tuple(dtype_of(layout->kind, layout->bytes, layout->swapped), shape)
                                : nb::make_tuple(record_dtype(*layout), shape);
}

void resize(const StoreHandle& self, std::uint64_t bytes) {
  const ReleasedGil released;
  if (const int error = self.store->resize(bytes); error != 0) fail(*self.store, "resized", error);
}

}  // namespace

void bind_stores(nb::module_& module) {
  nb::class_<StoreHandle>(module, "Store")
      .def_prop_ro("size", [](const StoreHandle& self) { return self.store->size_bytes(); })
      .def_prop_ro("writable", [](const StoreHandle& self) { return self.store->writable(); })
      .def_prop_ro("growable", [](const StoreHandle& self) { return self.store->growable(); })
      .def_prop_ro("name", [](const StoreHandle& self) { return FileName{self.store->name()}; })
      .def_prop_ro("elements", &elements)
      .def("read", &read, nb::arg("offset"), nb::arg("bytes"))
      .def("write", &write, nb::arg("offset"), nb::arg("data"))
      .def("resize", &resize, nb::arg("bytes"));
  module.def("open_store", &open, nb::arg("url"), nb::arg("mode"), nb::arg("create_bytes") = 0,
             nb::call_guard<ReleasedGil>());
}

}  // namespace tiermap::python
