#include "store/fits/library.hpp"

#include <dlfcn.h>

#include <cerrno>

#include "platform/hold_over_forks.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constinit std::mutex fits_mutex;
/// So that a child does not find the library in the middle of something, nor of being loaded.
[[maybe_unused]] const int held_over_forks = hold_over_forks<fits_mutex>();
FitsFunctions fits_functions;        // Filled once, under the mutex.
constinit bool fits_loaded = false;  // Under the mutex.

[[noreturn]] void refuse_fits_library(const std::string& path, const std::string& why) {
  throw StoreError(ENOTSUP, path + " needs cfitsio: " + why +
                                ": install what has " TIERMAP_FITS_LIBRARY " (Debian: libcfitsio-dev)");
}

template <typename Function>
void take_fits_symbol(void* library, const char* name, Function& function, const std::string& path) {
  void* const found = ::dlsym(library, name);
  if (found == nullptr) {
    refuse_fits_library(path, std::string(TIERMAP_FITS_LIBRARY " has no ") + name);
  }
  function = reinterpret_cast<Function>(found);
}

void load_fits(const std::string& path) {
  // Never unloaded: it has handlers for the end of the program.
  void* const library = ::dlopen(TIERMAP_FITS_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    refuse_fits_library(path, in_one_line(::dlerror()));
  }
  FitsFunctions found;
// In two steps: a name is a macro for the one that is exported.
#define TIERMAP_FITS_TEXT(name) #name
#define TIERMAP_FITS_TAKE(name) take_fits_symbol(library, TIERMAP_FITS_TEXT(name), found.name, path);
  TIERMAP_FITS_FUNCTIONS(TIERMAP_FITS_TAKE)
#undef TIERMAP_FITS_TAKE
#undef TIERMAP_FITS_TEXT
  fits_functions = found;
  fits_loaded = true;
}

}  // namespace

FitsCall::FitsCall(const std::string& path) : lock_(fits_mutex), functions_(&fits_functions) {
  if (!fits_loaded) {
    load_fits(path);
  }
}

}  // namespace tiermap
