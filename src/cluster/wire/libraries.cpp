#include "cluster/wire/libraries.hpp"

#include <dlfcn.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

[[noreturn]] void refuse_library(const std::string& why, const char* package) {
  throw StoreError(ENOTSUP, "other nodes cannot be reached: " + why + ": install it (Debian: " + package + ")");
}

void* open_library(const char* name, const char* package) {
  // Never unloaded: UCX has threads, and handlers for the end of the program.
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    refuse_library(std::string(name) + " is missing", package);
  }
  return library;
}

template <typename Function>
void take_symbol(void* library, const char* name, Function& function, const char* package) {
  void* const found = ::dlsym(library, name);
  if (found == nullptr) {
    refuse_library(std::string("its library has no ") + name, package);
  }
  function = reinterpret_cast<Function>(found);
}

/// Of the signals that UCX takes for itself when it is loaded.
class KeptHandlers {
 public:
  KeptHandlers() noexcept {
    for (std::size_t index = 0; index < numbers.size(); ++index) {
      ::sigaction(numbers[index], nullptr, &before_[index]);
    }
  }
  void restore(const WireLibraries& libraries) const noexcept {
    for (std::size_t index = 0; index < numbers.size(); ++index) {
      libraries.ucs_debug_disable_signal(numbers[index]);
      ::sigaction(numbers[index], &before_[index], nullptr);
    }
  }

 private:
  static constexpr std::array<int, 4> numbers = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
  std::array<struct sigaction, 4> before_{};
};

WireLibraries load() {
  constexpr const char* ucx = "libucx0";
  WireLibraries found;
  const KeptHandlers kept;
  void* const ucs_library = open_library(TIERMAP_UCS_LIBRARY, ucx);
  void* const ucp_library = open_library(TIERMAP_UCP_LIBRARY, ucx);
  void* const crypto_library = open_library(TIERMAP_CRYPTO_LIBRARY, "libssl3");
#define TIERMAP_TAKE_UCS(name) take_symbol(ucs_library, #name, found.name, ucx);
#define TIERMAP_TAKE_UCP(name) take_symbol(ucp_library, #name, found.name, ucx);
#define TIERMAP_TAKE_CRYPTO(name) take_symbol(crypto_library, #name, found.name, "libssl3");
  TIERMAP_UCS_FUNCTIONS(TIERMAP_TAKE_UCS)
  TIERMAP_UCP_FUNCTIONS(TIERMAP_TAKE_UCP)
  TIERMAP_CRYPTO_FUNCTIONS(TIERMAP_TAKE_CRYPTO)
#undef TIERMAP_TAKE_UCS
#undef TIERMAP_TAKE_UCP
#undef TIERMAP_TAKE_CRYPTO
  kept.restore(found);
  if (std::getenv("UCX_LOG_LEVEL") == nullptr) {  // NOLINT(concurrency-mt-unsafe)
    found.ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  }
  return found;
}

}  // namespace

const WireLibraries& load_wire_libraries() {
  static const WireLibraries libraries = load();
  return libraries;
}

}  // namespace tiermap
