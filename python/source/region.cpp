// Region: the memory under an array. It speaks the buffer protocol, so that numpy makes arrays of any type on it, and
// ends when the last of them does.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "mapped_files.hpp"
#include "mapped_region.hpp"
#include "platform/ending_signals.hpp"
#include "released_gil.hpp"
#include "row_prefetch.hpp"
#include "tiermap/error.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace tiermap::python {
namespace {

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
/// Device and inode.
using File = std::optional<std::pair<std::uint64_t, std::uint64_t>>;
using Rows = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// A prefetch, and whose threads do it: in a forked child nobody ever ends it.
struct StartedPrefetch {
  Prefetch prefetch;
  pid_t owner = ::getpid();

  bool is_here() const { return ::getpid() == owner; }
  bool done() const { return !is_here() || prefetch.done(); }
};

Advice advice_named(const std::string& name) {
  static constexpr std::pair<const char*, Advice> all[] = {{"normal", Advice::normal},
                                                           {"sequential", Advice::sequential},
                                                           {"random", Advice::random},
                                                           {"will_need", Advice::will_need},
                                                           {"dont_need", Advice::dont_need},
                                                           {"cold", Advice::cold},
                                                           {"hot", Advice::hot}};
  std::string names;
  for (const auto& [known, advice] : all) {
    if (name == known) {
      return advice;
    }
    names += std::string(names.empty() ? "" : ", ") + known;
  }
  throw OptionError("advice '" + name + "' is unknown: choose from " + names);
}

std::optional<FileIdentity> identity_of(const File& file) {
  return file.has_value() ? std::optional(FileIdentity{file->first, file->second}) : std::nullopt;
}

RegionOptions region_options(bool writable, bool private_copy, std::uint64_t offset, std::uint64_t length,
                             std::optional<std::uint64_t> page_size, std::optional<std::uint64_t> read_ahead,
                             const std::string& advice, bool manual_flush) {
  RegionOptions options;
  options.access = writable ? Access::read_write : Access::read_only;
  options.sharing = private_copy ? Sharing::private_copy : Sharing::shared;
  options.offset = offset;
  options.length = length;
  options.page_size_bytes = page_size;
  options.read_ahead_bytes = read_ahead;
  options.advice = advice_named(advice);
  options.manual_flush = manual_flush;
  return options;
}

/// What waits for the store: with the GIL released, and so that Ctrl-C ends the waiting for a store written in Python.
void wait_for(MappedRegion& self, std::function<void()> work, std::function<void()> undo = [] {}) {
  if (self.in_python()) {
    return self.errands().run(std::move(work), std::move(undo));
  }
  const ReleasedGil released;
  work();
}

void pin(MappedRegion& self, std::uint64_t offset, std::uint64_t bytes) {
  wait_for(
      self, [&self, offset, bytes] { self.pin({offset, bytes}); },
      [&self, offset, bytes] { self.unpin({offset, bytes}); });
}

void sync(MappedRegion& self, std::uint64_t offset, std::uint64_t bytes) {
  wait_for(self, [&self, offset, bytes] { self.use([&](Region& region) { region.sync({offset, bytes}); }); });
}

void flush(MappedRegion& self, std::uint64_t offset, std::uint64_t bytes) {
  self.use([&](Region& region) { region.flush({offset, bytes}); });
}

void discard(MappedRegion& self, std::uint64_t offset, std::uint64_t bytes) {
  self.use([&](Region& region) { region.discard({offset, bytes}); });
}

void advise(MappedRegion& self, const std::string& name, std::uint64_t offset, std::uint64_t bytes) {
  const Advice advice = advice_named(name);
  wait_for(self, [&self, advice, offset, bytes] {
    self.use([&](Region& region) { region.advise(advice, {offset, bytes}); });
  });
}

StartedPrefetch prefetch(MappedRegion& self, const Ranges& ranges) {
  std::vector<ByteRange> wanted;
  wanted.reserve(ranges.size());
  for (const auto& [offset, bytes] : ranges) {
    wanted.push_back({offset, bytes});
  }
  return self.use([&](Region& region) { return StartedPrefetch{region.prefetch(wanted)}; });
}

StartedPrefetch prefetch_rows(MappedRegion& self, std::uint64_t offset, std::uint64_t stride, std::uint64_t row_bytes,
                              const Rows& rows) {
  return self.use([&](Region& region) {
    const RowLayout layout{.offset = offset,
                           .stride = stride,
                           .row_bytes = row_bytes,
                           .page_bytes = region.page_size_bytes(),
                           .end = region.size()};
    return StartedPrefetch{region.prefetch(pages_of_rows(layout, std::span(rows.data(), rows.size())))};
  });
}

std::uint64_t page_size(MappedRegion& self) {
  const ReleasedGil released;
  return self.use([](const Region& region) { return region.page_size_bytes(); });
}

Statistics statistics(MappedRegion& self) {
  const ReleasedGil released;
  return self.use([](Region& region) { return region.statistics(); });
}

bool wait_a_little(const Prefetch& prefetch) {
  constexpr std::chrono::milliseconds time{50};
  const ReleasedGil released;
  return prefetch.wait_for(time);
}

/// Waits with the GIL released; Ctrl-C ends the waiting, not the prefetch. A signal's handler may fork, too.
std::uint64_t wait(const StartedPrefetch& self) {
  while (self.is_here() && !wait_a_little(self.prefetch)) {
    if (PyErr_CheckSignals() != 0) {
      throw nb::python_error();
    }
  }
  return self.is_here() ? self.prefetch.wait() : 0;
}

/// Nothing is mapped after this.
void end_for_others() {
  write_what_lives();
  leave_mapping_table();
}

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  const MappedRegion* const self = nb::inst_ptr<MappedRegion>(object);
  if (!self->is_mapped()) {
    PyErr_SetString(PyExc_BufferError, "the region is not mapped any more");
    view->obj = nullptr;
    return -1;
  }
  return PyBuffer_FillInfo(view, object, self->address(), static_cast<Py_ssize_t>(self->size()),
                           self->options().access == Access::read_only ? 1 : 0, flags);
}

PyType_Slot region_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

void bind_region(nb::module_& module) {
  using Released = nb::call_guard<ReleasedGil>;
  const auto none = nb::none();
  find_preloaded_library();
  module.def("take_ending_signal", [](int number) {
    if (EndingSignals::ends_by(number)) {
      EndingSignals::take_again(number);
    }
  });
  Py_AtExit(end_for_others);  // If it is refused (there are 32 others), arrays are written as they are given up.
  module.def("leave_mapping_table", &leave_mapping_table, Released());
  nb::class_<StartedPrefetch>(module, "Prefetch").def("wait", &wait).def_prop_ro("done", &StartedPrefetch::done);
  nb::class_<RegionCount>(module, "RegionCount")
      .def(nb::init<>())
      .def_prop_rw(
          "value", [](const RegionCount& self) { return self.value.load(); },
          [](RegionCount& self, std::int64_t value) { self.value.store(value); });
  nb::class_<MappedRegion>(module, "Region", nb::type_slots(region_slots), nb::is_weak_referenceable())
      .def(
          "__init__",
          [](MappedRegion* self, CacheHandle& cache, StoreHandle& store, bool writable, bool private_copy,
             std::uint64_t offset, std::uint64_t length, std::optional<std::uint64_t> page_size,
             std::optional<std::uint64_t> read_ahead, const std::string& advice, bool manual_flush, const File& file,
             bool among_processes) {
            const RegionOptions options =
                region_options(writable, private_copy, offset, length, page_size, read_ahead, advice, manual_flush);
            const ReleasedGil released;
            new (self) MappedRegion(cache, store.store, {options, identity_of(file), among_processes});
          },
          nb::arg("cache"), nb::arg("store"), nb::kw_only(), nb::arg("writable") = false,
          nb::arg("private_copy") = false, nb::arg("offset") = 0, nb::arg("length") = 0, nb::arg("page_size") = none,
          nb::arg("read_ahead") = none, nb::arg("advice") = "normal", nb::arg("manual_flush") = false,
          nb::arg("file") = none, nb::arg("among_processes") = false)
      .def_prop_ro("address", [](const MappedRegion& self) { return reinterpret_cast<std::uint64_t>(self.address()); })
      .def_prop_ro("size", &MappedRegion::size)
      .def_prop_ro("page_size", &page_size)
      .def_prop_ro("writable", [](const MappedRegion& self) { return self.options().access == Access::read_write; })
      .def_prop_ro("private_copy",
                   [](const MappedRegion& self) { return self.options().sharing == Sharing::private_copy; })
      .def_prop_ro("through_kernel", &MappedRegion::through_kernel)
      .def("give_file_to_kernel", &MappedRegion::give_file_to_kernel, Released())
      .def("statistics", [](MappedRegion& self) { return statistics_dict(statistics(self)); })
      .def_prop_ro("dirty_bytes", [](MappedRegion& self) { return statistics(self).dirty_bytes; })
      .def_prop_ro("resident_bytes", [](MappedRegion& self) { return statistics(self).resident_bytes; })
      .def("count_in", &MappedRegion::count_in, nb::arg("count"))
      .def(
          "map_again",
          [](MappedRegion& self, CacheHandle& cache, StoreHandle& store, bool among_processes) {
            self.map_again(cache, store.store, among_processes);
          },
          nb::arg("cache"), nb::arg("store"), nb::arg("among_processes") = false, Released())
      .def("prefetch", &prefetch, nb::arg("ranges"), Released())
      .def("prefetch_rows", &prefetch_rows, nb::arg("offset"), nb::arg("stride"), nb::arg("row_bytes"), nb::arg("rows"),
           Released())
      .def("pin", &pin, nb::arg("offset"), nb::arg("bytes"))
      .def(
          "unpin", [](MappedRegion& self, std::uint64_t offset, std::uint64_t bytes) { self.unpin({offset, bytes}); },
          nb::arg("offset"), nb::arg("bytes"), Released())
      .def("advise", &advise, nb::arg("advice"), nb::arg("offset"), nb::arg("bytes"))
      .def("sync", &sync, nb::arg("offset"), nb::arg("bytes"))
      .def("flush", &flush, nb::arg("offset"), nb::arg("bytes"), Released())
      .def("discard", &discard, nb::arg("offset"), nb::arg("bytes"), Released());
}

}  // namespace tiermap::python
