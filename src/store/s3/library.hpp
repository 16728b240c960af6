// libcurl, loaded when the first s3: URL is opened: who opens none need not have it, and nothing is linked to it.
#pragma once

#include <curl/curl.h>

#include <cstddef>
#include <string>

namespace tiermap {

// What is called of it, by libcurl's own names.
#define TIERMAP_CURL_FUNCTIONS(function)                                                                           \
  function(curl_easy_cleanup) function(curl_easy_getinfo) function(curl_easy_init) function(curl_easy_perform)     \
      function(curl_easy_reset) function(curl_easy_setopt) function(curl_easy_strerror) function(curl_global_init) \
          function(curl_slist_append) function(curl_slist_free_all) function(curl_version_info)

struct CurlFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): it is the member's name.
#define TIERMAP_CURL_MEMBER(name) decltype(&::name) name = nullptr;
  TIERMAP_CURL_FUNCTIONS(TIERMAP_CURL_MEMBER)
#undef TIERMAP_CURL_MEMBER
  /// OpenSSL's, which libcurl is made on.
  unsigned char* (*SHA256)(const unsigned char* data, std::size_t bytes, unsigned char* hash) = nullptr;
};

/// Loads the library, which stays. Throws StoreError that names `url` and the remedy. Thread-safe.
const CurlFunctions& load_curl(const std::string& url);

}  // namespace tiermap
