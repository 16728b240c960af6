// Places in the address space, for a forked child: where its parent's regions were, nothing is mapped, and whatever
// asks for memory next could be given just that.
#include <nanobind/nanobind.h>
#include <sys/mman.h>

#include "bindings.hpp"

namespace nb = nanobind;

namespace tiermap::python {
namespace {

/// Keeps [address, address + bytes) for the region that is to come back there. False if something is there already.
bool hold(std::uint64_t address, std::uint64_t bytes) {
  void* const wanted = reinterpret_cast<void*>(address);
  void* const got =
      ::mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != MAP_FAILED && got != wanted) {  // Kernels before 4.17 take the address for a hint.
    ::munmap(got, bytes);
  }
  return got == wanted;
}

}  // namespace

void bind_address_space(nb::module_& module) {
  module.def("hold_addresses", &hold, nb::arg("address"), nb::arg("bytes"));
}

}  // namespace tiermap::python
