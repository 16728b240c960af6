// Names of files, which are any bytes: what is no UTF-8 is in Python's texts as os.fsdecode() puts it there.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace tiermap::python {

struct FileName {
  std::string bytes;
};

/// A new reference, or null with Python's error set.
inline PyObject* text_of(const std::string& bytes) noexcept {
  return PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
}

}  // namespace tiermap::python

template <>
struct nanobind::detail::type_caster<tiermap::python::FileName> {
  NB_TYPE_CASTER(tiermap::python::FileName, const_name("str"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    PyObject* const encoded = PyUnicode_Check(source.ptr()) ? PyUnicode_EncodeFSDefault(source.ptr()) : nullptr;
    if (encoded == nullptr) {
      PyErr_Clear();
      return false;
    }
    value.bytes.assign(PyBytes_AsString(encoded), static_cast<std::size_t>(PyBytes_Size(encoded)));
    Py_DECREF(encoded);
    return true;
  }
  static handle from_cpp(const tiermap::python::FileName& name, rv_policy, cleanup_list*) noexcept {
    return tiermap::python::text_of(name.bytes);
  }
};
