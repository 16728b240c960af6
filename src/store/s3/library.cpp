#include "store/s3/library.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <mutex>

#include "platform/hold_over_forks.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Of the options that are set.
constexpr unsigned least_version = 0x075500;
constexpr const char* least_version_text = "7.85";

constinit std::mutex curl_mutex;
/// So that a child does not find the library in the middle of being loaded.
[[maybe_unused]] const int held_over_forks = hold_over_forks<curl_mutex>();
CurlFunctions curl_functions;        // Filled once, under the mutex.
constinit bool curl_loaded = false;  // Under the mutex.

[[noreturn]] void refuse_curl(const std::string& url, const std::string& why) {
  throw StoreError(ENOTSUP, "store '" + url + "' needs libcurl: " + why +
                                ": install what has " TIERMAP_S3_LIBRARY " (Debian: libcurl4)");
}

template <typename Function>
void take_curl_symbol(void* library, const char* name, Function& function, const std::string& url) {
  void* const found = ::dlsym(library, name);
  if (found == nullptr) {
    refuse_curl(url, std::string(TIERMAP_S3_LIBRARY ", made on OpenSSL, has ") + name + ", and this one has not");
  }
  function = reinterpret_cast<Function>(found);
}

}  // namespace

const CurlFunctions& load_curl(const std::string& url) {
  const std::lock_guard lock(curl_mutex);
  if (curl_loaded) {
    return curl_functions;
  }
  // Never unloaded: what it is made on has handlers for the end of the program.
  void* const library = ::dlopen(TIERMAP_S3_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    refuse_curl(url, why == nullptr ? "it cannot be loaded" : why);
  }
  CurlFunctions found;
#define TIERMAP_CURL_TAKE(name) take_curl_symbol(library, #name, found.name, url);
  TIERMAP_CURL_FUNCTIONS(TIERMAP_CURL_TAKE)
#undef TIERMAP_CURL_TAKE
  // In the library itself and in those that it is linked to.
  take_curl_symbol(library, "SHA256", found.SHA256, url);
  const curl_version_info_data* const version = found.curl_version_info(CURLVERSION_NOW);
  if (version->version_num < least_version) {
    refuse_curl(url, "version " + std::string(version->version) + " is older than " + least_version_text);
  }
  if (found.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    refuse_curl(url, TIERMAP_S3_LIBRARY " does not start");
  }
  curl_functions = found;
  curl_loaded = true;
  return curl_functions;
}

}  // namespace tiermap
