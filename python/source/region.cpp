// Region: the memory under an array. It speaks the buffer protocol, so that numpy makes arrays of any type on it, and
// ends when the last of them does.
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "channel_store.hpp"
#include "errand.hpp"
#include "platform/ending_signals.hpp"
#include "platform/hold_over_forks.hpp"
#include "platform/page_sizes.hpp"
#include "platform/signals_blocked.hpp"
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
using Rows = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// How many regions there are, those included that nobody has any more and that are still being written.
struct RegionCount {
  std::atomic<std::int64_t> value{0};
};

/// What the region's owner could still do, behind the last semicolon, is for nobody any more.
void tell_lost(const std::exception& error) {
  const std::string_view said = error.what();
  const auto length = static_cast<int>(said.substr(0, said.rfind("; ")).size());
  std::fprintf(stderr, "tiermap: data of an array that was given up is lost: %.*s\n", length, said.data());
}

struct MappedRegion;

constinit std::mutex live_mutex;
[[maybe_unused]] const int held_over_forks = hold_over_forks<live_mutex>();

/// Under the mutex, which nobody holds where a signal can come. Never destroyed: some regions outlive all else.
struct LiveRegions {
  std::set<MappedRegion*> all;  ///< Those that somebody has, in a forked child also its parent's.
  /// Of this process, with data that a signal would lose.
  pid_t process = 0;
  std::uint64_t writing = 0;
  std::uint64_t being_unmapped = 0;
  std::unique_ptr<EndingSignals> signals;  ///< As long as there are some.
};
LiveRegions& live_regions = *new LiveRegions;

void write_before_signal();

/// With the mutex held, of a region that is new in this process.
void take_ending_signals() noexcept {
  if (live_regions.process != ::getpid()) {
    [[maybe_unused]] const auto* const parents = live_regions.signals.release();
    EndingSignals::forget_parents();
    live_regions.process = ::getpid();
    live_regions.writing = live_regions.being_unmapped = 0;
  }
  ++live_regions.writing;
  try {
    if (live_regions.signals == nullptr) {
      live_regions.signals = std::make_unique<EndingSignals>(write_before_signal);
    }
    EndingSignals::take();
  } catch (const std::exception&) {  // No more threads: the program ends by its signals as they come.
  }
}

struct MappedRegion {
  Region region;
  RegionOptions options;
  pid_t owner = ::getpid();
  std::shared_ptr<RegionCount> count;  ///< Null if it is in none.
  bool in_python;                      ///< The store is: its calls may take as long as they like.
  Errands errands;

  /// Whether what is stored in it is to reach the store, without Python's help.
  const bool writes;

  MappedRegion(Region mapped, const RegionOptions& with, bool python)
      : region(std::move(mapped)),
        options(with),
        in_python(python),
        writes(with.access == Access::read_write && with.sharing == Sharing::shared && !python) {
    const SignalsBlocked quiet;
    const std::lock_guard held(live_mutex);
    live_regions.all.insert(this);
    if (writes) {
      take_ending_signals();
    }
  }
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;

  // Writes back what is dirty, which takes as long as the disk does: other Python threads go on meanwhile.
  ~MappedRegion() {
    // A signal that comes in this thread must not stop what it waits for, from when it waits for that.
    std::optional<SignalsBlocked> quiet(std::in_place);
    const bool counted = forget();
    if (!counted) {
      quiet.reset();
    }
    unmap(counted);
    if (count != nullptr) {
      --count->value;
    }
  }

  /// In a forked child, whose it is from now on.
  void belongs_here() {
    const SignalsBlocked quiet;
    const std::lock_guard held(live_mutex);
    owner = ::getpid();
    if (writes) {
      take_ending_signals();
    }
  }

 private:
  /// Returns whether those who end the program wait for its end. No signal can come.
  bool forget() {
    const std::lock_guard held(live_mutex);
    live_regions.all.erase(this);
    const bool counted = writes && owner == ::getpid() && owner == live_regions.process;
    live_regions.being_unmapped += counted ? 1 : 0;
    return counted;
  }

  static void end_counted() {
    const std::lock_guard held(live_mutex);
    --live_regions.being_unmapped;
    if (--live_regions.writing == 0) {
      live_regions.signals.reset();
    }
  }

  void unmap(bool counted) {
    std::optional<ReleasedGil> released;
    if (region && ::getpid() == owner) {
      released.emplace();
      errands.wait();
      try {
        region.unmap();
      } catch (const std::exception& error) {
        tell_lost(error);
      }
    }
    if (counted) {
      end_counted();  // Before the lock is taken again, which a thread may have where a signal came.
    }
  }
};

/// Behind all that Python does at its end: functions given to `atexit` before this package was imported run after its
/// own, and may write to an array that a daemon thread has, which is never given up.
void write_what_lives() {
  const SignalsBlocked quiet;
  const std::lock_guard held(live_mutex);
  for (MappedRegion* const mapped : live_regions.all) {
    if (mapped->owner != ::getpid() || !mapped->writes || !mapped->region) {
      continue;
    }
    try {
      mapped->region.sync();
    } catch (const std::exception& error) {
      tell_lost(error);
    }
  }
}

bool any_being_unmapped() {
  const std::lock_guard held(live_mutex);
  return live_regions.process == ::getpid() && live_regions.being_unmapped > 0;
}

/// Also called by the library that `tiermap run` preloads, in a thread of that.
void write_all_back() {
  write_what_lives();
  while (any_being_unmapped()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

using WriteBack = void (*)();

/// Of the library that `tiermap run` preloads, if there is one: a signal is taken over by that or by this one.
WriteBack preloaded_write_back = nullptr;

void find_preloaded_library() {
  if (void* const found = ::dlsym(RTLD_DEFAULT, "tiermap_ends_with"); found != nullptr) {
    preloaded_write_back = reinterpret_cast<WriteBack (*)(WriteBack)>(found)(write_all_back);
  }
}

/// In a thread of its own, while the program's may be anywhere, and one may hold the interpreter's lock.
void write_before_signal() {
  write_all_back();
  if (preloaded_write_back != nullptr) {
    preloaded_write_back();
  }
}

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

/// The largest page of which whole ones end where the region's address space did. In fault mode kernel, regions take
/// whole pages; the parent's may have ended before, and what lies behind it is the child's too.
std::uint64_t page_size_that_fits(const Region& region) {
  const std::uint64_t held = round_up(region.size(), kernel_page_bytes);
  std::uint64_t page = region.page_size_bytes();
  while (page > kernel_page_bytes && held % page != 0) {
    page /= 2;
  }
  return page;
}

/// In a forked child: the same bytes at the same address, served by a cache of the child's own.
void map_again(MappedRegion& self, CacheHandle& cache, StoreHandle& store) {
  RegionOptions options = self.options;
  options.address = self.region.data();
  options.length = self.region.size();
  if (cache.cache->fault_mode() == FaultMode::kernel) {
    options.page_size_bytes = page_size_that_fits(self.region);
  }
  self.errands.forget();
  self.region = cache.cache->map(store.store, options);
  self.belongs_here();
}

/// What waits for the store: with the GIL released, and so that Ctrl-C ends the waiting for a store written in Python.
void wait_for(MappedRegion& self, std::function<void()> work, std::function<void()> undo = [] {}) {
  if (self.in_python) {
    return self.errands.run(std::move(work), std::move(undo));
  }
  const ReleasedGil released;
  work();
}

void pin(MappedRegion& self, std::uint64_t offset, std::uint64_t bytes) {
  Region& region = self.region;
  wait_for(
      self, [&region, offset, bytes] { region.pin({offset, bytes}); },
      [&region, offset, bytes] { region.unpin({offset, bytes}); });
}

void sync(MappedRegion& self, std::uint64_t offset, std::uint64_t bytes) {
  wait_for(self, [&region = self.region, offset, bytes] { region.sync({offset, bytes}); });
}

void advise(MappedRegion& self, const std::string& name, std::uint64_t offset, std::uint64_t bytes) {
  const Advice advice = advice_named(name);
  wait_for(self, [&region = self.region, advice, offset, bytes] { region.advise(advice, {offset, bytes}); });
}

StartedPrefetch prefetch(MappedRegion& self, const Ranges& ranges) {
  std::vector<ByteRange> wanted;
  wanted.reserve(ranges.size());
  for (const auto& [offset, bytes] : ranges) {
    wanted.push_back({offset, bytes});
  }
  return {self.region.prefetch(wanted)};
}

StartedPrefetch prefetch_rows(MappedRegion& self, std::uint64_t offset, std::uint64_t stride, std::uint64_t row_bytes,
                              const Rows& rows) {
  const RowLayout layout{.offset = offset,
                         .stride = stride,
                         .row_bytes = row_bytes,
                         .page_bytes = self.region.page_size_bytes(),
                         .end = self.region.size()};
  return {self.region.prefetch(pages_of_rows(layout, std::span(rows.data(), rows.size())))};
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

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  const MappedRegion* const self = nb::inst_ptr<MappedRegion>(object);
  if (!self->region) {
    PyErr_SetString(PyExc_BufferError, "the region is not mapped any more");
    view->obj = nullptr;
    return -1;
  }
  return PyBuffer_FillInfo(view, object, self->region.data(), static_cast<Py_ssize_t>(self->region.size()),
                           self->options.access == Access::read_only ? 1 : 0, flags);
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
  Py_AtExit(write_what_lives);  // If it is refused (there are 32 others), arrays are written as they are given up.
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
             std::optional<std::uint64_t> read_ahead, const std::string& advice, bool manual_flush) {
            const RegionOptions options =
                region_options(writable, private_copy, offset, length, page_size, read_ahead, advice, manual_flush);
            const ReleasedGil released;
            const bool in_python = dynamic_cast<const ChannelStore*>(store.store.get()) != nullptr;
            new (self) MappedRegion(cache.cache->map(store.store, options), options, in_python);
          },
          nb::arg("cache"), nb::arg("store"), nb::kw_only(), nb::arg("writable") = false,
          nb::arg("private_copy") = false, nb::arg("offset") = 0, nb::arg("length") = 0, nb::arg("page_size") = none,
          nb::arg("read_ahead") = none, nb::arg("advice") = "normal", nb::arg("manual_flush") = false)
      .def_prop_ro("address",
                   [](const MappedRegion& self) { return reinterpret_cast<std::uint64_t>(self.region.data()); })
      .def_prop_ro("size", [](const MappedRegion& self) { return self.region.size(); })
      .def_prop_ro("page_size", [](const MappedRegion& self) { return self.region.page_size_bytes(); })
      .def_prop_ro("writable", [](const MappedRegion& self) { return self.options.access == Access::read_write; })
      .def_prop_ro("private_copy",
                   [](const MappedRegion& self) { return self.options.sharing == Sharing::private_copy; })
      .def("statistics", [](const MappedRegion& self) { return statistics_dict(self.region.statistics()); })
      .def_prop_ro("dirty_bytes", [](const MappedRegion& self) { return self.region.statistics().dirty_bytes; })
      .def_prop_ro("resident_bytes", [](const MappedRegion& self) { return self.region.statistics().resident_bytes; })
      .def(
          "count_in",
          [](MappedRegion& self, std::shared_ptr<RegionCount> count) {
            ++count->value;
            self.count = std::move(count);
          },
          nb::arg("count"))
      .def("map_again", &map_again, nb::arg("cache"), nb::arg("store"), Released())
      .def("prefetch", &prefetch, nb::arg("ranges"), Released())
      .def("prefetch_rows", &prefetch_rows, nb::arg("offset"), nb::arg("stride"), nb::arg("row_bytes"), nb::arg("rows"),
           Released())
      .def("pin", &pin, nb::arg("offset"), nb::arg("bytes"))
      .def(
          "unpin",
          [](MappedRegion& self, std::uint64_t offset, std::uint64_t bytes) { self.region.unpin({offset, bytes}); },
          nb::arg("offset"), nb::arg("bytes"), Released())
      .def("advise", &advise, nb::arg("advice"), nb::arg("offset"), nb::arg("bytes"))
      .def("sync", &sync, nb::arg("offset"), nb::arg("bytes"))
      .def(
          "flush",
          [](MappedRegion& self, std::uint64_t offset, std::uint64_t bytes) { self.region.flush({offset, bytes}); },
          nb::arg("offset"), nb::arg("bytes"), Released())
      .def(
          "discard",
          [](MappedRegion& self, std::uint64_t offset, std::uint64_t bytes) { self.region.discard({offset, bytes}); },
          nb::arg("offset"), nb::arg("bytes"), Released());
}

}  // namespace tiermap::python
