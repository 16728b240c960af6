// UCX, which moves the bytes, and OpenSSL's libcrypto, which proves who is who: loaded when the first wire is made, so
// that who makes none need not have them.
#pragma once

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

namespace tiermap {

// What is called of each, by its own names.
#define TIERMAP_UCP_FUNCTIONS(function)                                                                               \
  function(ucp_am_send_nbx) function(ucp_cleanup) function(ucp_config_modify) function(ucp_config_read)               \
      function(ucp_config_release) function(ucp_ep_close_nbx) function(ucp_ep_create) function(ucp_ep_rkey_unpack)    \
          function(ucp_get_nbx) function(ucp_init_version) function(ucp_listener_create)                              \
              function(ucp_listener_destroy) function(ucp_listener_query) function(ucp_listener_reject)               \
                  function(ucp_mem_map) function(ucp_mem_unmap) function(ucp_request_check_status)                    \
                      function(ucp_request_free) function(ucp_rkey_buffer_release) function(ucp_rkey_destroy)         \
                          function(ucp_rkey_pack) function(ucp_worker_arm) function(ucp_worker_create)                \
                              function(ucp_worker_destroy) function(ucp_worker_get_efd) function(ucp_worker_progress) \
                                  function(ucp_worker_set_am_recv_handler) function(ucp_worker_signal)
#define TIERMAP_UCS_FUNCTIONS(function) \
  function(ucs_debug_disable_signal) function(ucs_global_opts_set_value) function(ucs_status_string)
#define TIERMAP_CRYPTO_FUNCTIONS(function) function(CRYPTO_memcmp) function(EVP_sha256) function(HMAC)

struct WireLibraries {
// NOLINTBEGIN(bugprone-macro-parentheses): it is the member's name.
#define TIERMAP_WIRE_MEMBER(name) decltype(&::name) name = nullptr;
  TIERMAP_UCP_FUNCTIONS(TIERMAP_WIRE_MEMBER)
  TIERMAP_UCS_FUNCTIONS(TIERMAP_WIRE_MEMBER)
  TIERMAP_CRYPTO_FUNCTIONS(TIERMAP_WIRE_MEMBER)
#undef TIERMAP_WIRE_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)
};

/// Loads them, once. Throws StoreError (ENOTSUP) with the library and the package that has it. Thread-safe. What UCX
/// would do to the whole program is taken back: handlers for SIGSEGV and the like, and warnings on standard output
/// (UCX_LOG_LEVEL turns those on).
const WireLibraries& load_wire_libraries();

}  // namespace tiermap
