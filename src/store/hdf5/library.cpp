#include "store/hdf5/library.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>

#include "platform/hold_over_forks.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constinit std::mutex hdf5_mutex;
/// So that a child does not find the library in the middle of something, nor of being loaded.
[[maybe_unused]] const int held_over_forks = hold_over_forks<hdf5_mutex>();
Hdf5Functions hdf5_functions;        // Filled once, under the mutex.
constinit bool hdf5_loaded = false;  // Under the mutex.
/// What of a damaged header libhdf5 could not take, it may never let go of: then it has a word to say on standard error
/// when the program ends, about itself.
constinit bool hdf5_failed = false;  // Under the mutex.

[[noreturn]] void refuse_library(const std::string& url, const std::string& why) {
  throw StoreError(ENOTSUP, "store '" + url + "' needs HDF5's library: " + why +
                                ": install what has " TIERMAP_HDF5_LIBRARY " (Debian: libhdf5-dev)");
}

template <typename Function>
void take_symbol(void* library, const char* name, Function& function, const std::string& url) {
  void* const found = ::dlsym(library, name);
  if (found == nullptr) {
    refuse_library(url, std::string(TIERMAP_HDF5_LIBRARY " has no ") + name);
  }
  function = reinterpret_cast<Function>(found);
}

/// Variables have their values once the library is at work. In a program that is linked to the library itself, and
/// names one, it is the program's copy that the library sets, and not its own.
hid_t variable_of(void* library, const char* name, const std::string& url) {
  const hid_t* variable = nullptr;
  take_symbol(library, name, variable, url);
  const void* const copy = *variable < 0 ? ::dlsym(RTLD_DEFAULT, name) : nullptr;
  return copy != nullptr ? *static_cast<const hid_t*>(copy) : *variable;
}

herr_t note_frame(unsigned depth, const H5E_error2_t* frame, void* data) {
  Hdf5Failure& failure = *static_cast<Hdf5Failure*>(data);
  const std::string_view function = frame->func_name == nullptr ? "" : frame->func_name;
  const std::string_view text = frame->desc == nullptr ? "" : frame->desc;
  if (depth == 0) {
    failure.text = in_one_line(text);
  }
  constexpr std::string_view number = "errno = ";
  if (const std::size_t at = text.find(number); at != std::string_view::npos && failure.error_number == 0) {
    const char* const digits = text.data() + at + number.size();
    std::from_chars(digits, text.data() + text.size(), failure.error_number);
  }
  // What a read has to make room for, or what it takes along.
  failure.lost_a_write = failure.lost_a_write || function.find("flush_entry") != std::string_view::npos ||
                         function.find("sec2_write") != std::string_view::npos;
  return 0;
}

/// It asks the same printer whether anybody wants to hear that, of the thread that ends the program. Called before the
/// library closes itself; who calls it after that has had all its errors printed as it wishes.
void end_quietly() {
  const std::unique_lock lock(hdf5_mutex, std::try_to_lock);
  if (lock.owns_lock() && hdf5_failed) {
    hdf5_functions.H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
}

}  // namespace

void load_hdf5(const std::string& url) {
  const std::lock_guard lock(hdf5_mutex);
  if (hdf5_loaded) {
    return;
  }
  // Never unloaded: it has handlers for the end of the program.
  void* const library = ::dlopen(TIERMAP_HDF5_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    refuse_library(url, in_one_line(::dlerror()));
  }
  Hdf5Functions found;
// In two steps: a name may be a macro for the one of this version.
#define TIERMAP_HDF5_TEXT(name) #name
#define TIERMAP_HDF5_TAKE(name) take_symbol(library, TIERMAP_HDF5_TEXT(name), found.name, url);
  TIERMAP_HDF5_FUNCTIONS(TIERMAP_HDF5_TAKE)
#undef TIERMAP_HDF5_TAKE
#undef TIERMAP_HDF5_TEXT
  if (found.H5open() < 0) {
    refuse_library(url, TIERMAP_HDF5_LIBRARY " does not start");
  }
  found.dataset_access = variable_of(library, "H5P_CLS_DATASET_ACCESS_ID_g", url);
  found.dataset_creation = variable_of(library, "H5P_CLS_DATASET_CREATE_ID_g", url);
  found.file_access = variable_of(library, "H5P_CLS_FILE_ACCESS_ID_g", url);
  found.link_creation = variable_of(library, "H5P_CLS_LINK_CREATE_ID_g", url);
  for (std::size_t number = 0; number < found.numbers.size(); ++number) {
    found.numbers[number] = variable_of(library, hdf5_numbers[number].variable, url);
  }
  std::atexit(end_quietly);  // Behind the library's own, which H5open() has named: it is called before that.
  hdf5_functions = found;
  hdf5_loaded = true;
}

Hdf5Call::Hdf5Call() noexcept : lock_(hdf5_mutex), functions_(&hdf5_functions) {
  functions_->H5Eget_auto2(H5E_DEFAULT, &printer_, &printer_data_);
  functions_->H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Call::~Hdf5Call() {
  functions_->H5Eset_auto2(H5E_DEFAULT, printer_, printer_data_);
}

Hdf5Failure Hdf5Call::failure() const {
  hdf5_failed = true;
  Hdf5Failure failure;
  functions_->H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_frame, &failure);
  if (failure.text.empty()) {
    failure.text = "libhdf5 does not say why";
  }
  if (failure.error_number <= 0) {
    failure.error_number = EIO;
  }
  return failure;
}

}  // namespace tiermap
