// Tiermap's exceptions as Python's: ValueError for what can never be right, else the OSError of the errno value.
#include <nanobind/nanobind.h>

#include <cerrno>
#include <exception>

#include "bindings.hpp"
#include "file_name.hpp"
#include "tiermap/error.hpp"

namespace nb = nanobind;

namespace tiermap::python {
namespace {

void raise_os_error(int number, nb::handle text) {
  // OSError(errno, text) makes itself the subclass that belongs to the number: FileNotFoundError and so on.
  nb::object instance = nb::steal(PyObject_CallFunction(PyExc_OSError, "iO", number, text.ptr()));
  if (instance.is_valid()) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(instance.ptr())), instance.ptr());
  }
}

bool is_bad_value(const Error& error) {
  const int number = error.code().value();
  return dynamic_cast<const OptionError*>(&error) != nullptr && (number == EINVAL || number == ERANGE);
}

void translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    const nb::object text = nb::steal(text_of(error.what()));
    if (!text.is_valid()) {
      return;
    }
    if (is_bad_value(error)) {
      PyErr_SetObject(PyExc_ValueError, text.ptr());
    } else {
      raise_os_error(error.code().value(), text);
    }
  }
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator(translate);
}

}  // namespace tiermap::python
