#include "cluster/wire/libraries.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>

#include "platform/hold_over_forks.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constinit std::mutex loading;
/// So that a child does not find the libraries in the middle of being loaded.
[[maybe_unused]] const int held_over_forks = hold_over_forks<loading>();
constinit std::atomic<const WireLibraries*> loaded{nullptr};  // Stored under the mutex.

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
  const WireLibraries* known = loaded.load(std::memory_order_acquire);
  if (known == nullptr) {
    const std::lock_guard lock(loading);
    known = loaded.load(std::memory_order_relaxed);
    if (known == nullptr) {
      static constinit WireLibraries libraries;
      libraries = load();
      known = &libraries;
      loaded.store(known, std::memory_order_release);
    }
  }
  return *known;
}

}  // namespace tiermap
