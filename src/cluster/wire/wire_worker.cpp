#include "cluster/wire/wire_worker.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "cluster/wire/ucx_connection.hpp"
#include "config/size.hpp"
#include "platform/clock.hpp"
#include "platform/engine_thread.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t most_connections = 1024;
/// Of one connection, over TCP three. UCX goes wrong for good where it gets none.
constexpr std::uint64_t connection_descriptors = 4;

bool has_descriptors_for_another() noexcept {
  struct rlimit limit = {};
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  if (error || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return true;
  }
  const auto used = static_cast<std::uint64_t>(std::distance(begin(open), end(open)));
  return used + spare_descriptors + connection_descriptors <= limit.rlim_cur;
}

/// UCX's own settings where ours do better, unless the user has said his.
struct UcxSetting {
  const char* name;
  const char* variable;
  const char* value;
};
constexpr UcxSetting settings[] = {
    {"TX_SEG_SIZE", "UCX_TCP_TX_SEG_SIZE", "128k"},  // Pages and more go in one piece.
    {"RX_SEG_SIZE", "UCX_TCP_RX_SEG_SIZE", "128k"},
    {"CM_REUSEADDR", "UCX_CM_REUSEADDR", "y"},  // A server that is started again gets its port.
};

[[noreturn]] void refuse_ucx(const WireLibraries& libraries, const char* doing, ucs_status_t status) {
  throw StoreError(ENETUNREACH, std::string("UCX cannot ") + doing + " (" + libraries.ucs_status_string(status) +
                                    "): check UCX_TLS and UCX_NET_DEVICES against `ucx_info -d`");
}

}  // namespace

WireWorker::WireWorker(const WireOptions& options, WireService* service)
    : libraries_(load_wire_libraries()), options_(options), service_(service) {
  const SignalsBlocked inherited;  // UCX has threads too.
  open_context();
  try {
    open_worker();
  } catch (...) {
    libraries_.ucp_cleanup(context_);
    throw;
  }
}

WireWorker::~WireWorker() {
  shut_down();
}

void WireWorker::open_context() {
  ucp_config_t* config = nullptr;
  ucs_status_t status = libraries_.ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    refuse_ucx(libraries_, "read its configuration", status);
  }
  for (const UcxSetting& setting : settings) {
    if (std::getenv(setting.variable) == nullptr) {  // NOLINT(concurrency-mt-unsafe)
      libraries_.ucp_config_modify(config, setting.name, setting.value);
    }
  }
  if (options_.loopback && std::getenv("UCX_NET_DEVICES") == nullptr) {  // NOLINT(concurrency-mt-unsafe)
    libraries_.ucp_config_modify(config, "NET_DEVICES", "lo");
  }
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  if (options_.one_sided) {
    parameters.features |= UCP_FEATURE_RMA;
  }
  parameters.name = "tiermap";
  status = libraries_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &context_);
  libraries_.ucp_config_release(config);
  if (status != UCS_OK) {
    refuse_ucx(libraries_, "start", status);
  }
}

void WireWorker::open_worker() {
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = libraries_.ucp_worker_create(context_, &parameters, &worker_);
  if (status != UCS_OK) {
    refuse_ucx(libraries_, "make a worker", status);
  }
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = 0;
  handler.cb = on_frame;
  handler.arg = this;
  status = libraries_.ucp_worker_set_am_recv_handler(worker_, &handler);
  if (status == UCS_OK) {
    status = libraries_.ucp_worker_get_efd(worker_, &event_descriptor_);
  }
  if (status != UCS_OK) {
    libraries_.ucp_worker_destroy(worker_);
    refuse_ucx(libraries_, "wait for messages", status);
  }
}

void WireWorker::start() {
  thread_ = start_engine_thread("tiermap-wire", [this] { run(); });
}

void WireWorker::shut_down() {
  if (stopping_.exchange(true)) {
    return;
  }
  if (!is_here()) {
    thread_.detach();
    return;
  }
  wake_thread();
  if (thread_.joinable()) {
    thread_.join();
  }
  as_driver([this](const Driving& driving) {
    while (!connections_.empty()) {
      const std::shared_ptr<UcxConnection> connection = connections_.begin()->second;
      connection->fail(driving, ECONNRESET, "was closed here");
    }
    if (listener_ != nullptr) {
      libraries_.ucp_listener_destroy(listener_);
    }
    constexpr std::uint64_t patience = 1'000'000'000;
    const std::uint64_t end = now_nanoseconds() + patience;
    do {
      drive(driving);
    } while (closing_ > 0 && now_nanoseconds() < end);
    libraries_.ucp_worker_destroy(worker_);
    libraries_.ucp_cleanup(context_);
    shut_down_ = true;
  });
}

std::uint16_t WireWorker::listen(const SocketAddress& address, const std::string& text) {
  ucp_listener_params_t parameters{};
  parameters.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  parameters.sockaddr = {address.get(), address.bytes};
  parameters.conn_handler = {on_connection_request, this};
  allow_open_files(std::min(most_connections * connection_descriptors, open_files_limit() - spare_descriptors));
  ucs_status_t status = UCS_OK;
  SocketAddress bound = address;
  as_driver([&](const Driving&) {
    status = libraries_.ucp_listener_create(worker_, &parameters, &listener_);
    ucp_listener_attr_t attributes{};
    attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    if (status == UCS_OK && libraries_.ucp_listener_query(listener_, &attributes) == UCS_OK) {
      bound.storage = attributes.sockaddr;
    }
  });
  if (status == UCS_ERR_BUSY) {
    throw StoreError(EADDRINUSE, "address " + quote_value(text) + " is in use: choose another port, or end who has it");
  }
  if (status != UCS_OK) {
    throw StoreError(EADDRNOTAVAIL, "cannot listen on " + quote_value(text) + " (" +
                                        libraries_.ucs_status_string(status) + "): choose an address of this machine");
  }
  return bound.port();
}

std::shared_ptr<UcxConnection> WireWorker::add(const Driving&, ucp_ep_params_t& parameters,
                                               std::shared_ptr<UcxConnection> connection, ucs_status_t& status) {
  parameters.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {on_endpoint_error, this};
  status = libraries_.ucp_ep_create(worker_, &parameters, &connection->endpoint);
  if (status == UCS_OK) {
    connections_.emplace(connection->endpoint, connection);
  }
  return connection;
}

std::shared_ptr<UcxConnection> WireWorker::connect(const SocketAddress& address, const std::string& text,
                                                   const WireLogin& login) {
  auto connection = std::make_shared<UcxConnection>(shared_from_this(), text, &login, address.loopback());
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  parameters.sockaddr = {address.get(), address.bytes};
  ucs_status_t status = UCS_OK;
  as_driver([&](const Driving& driving) {
    connection = add(driving, parameters, connection, status);
    if (status == UCS_OK) {
      connection->greet();
    }
  });
  if (status != UCS_OK) {
    refuse_ucx(libraries_, ("reach " + text).c_str(), status);
  }
  return connection;
}

void WireWorker::accept(ucp_conn_request_h request) {
  ucp_conn_request_attr_t attributes{};
  attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
  SocketAddress from;
  if (libraries_.ucp_conn_request_query(request, &attributes) == UCS_OK) {
    from.storage = attributes.client_address;
    from.bytes = sizeof(from.storage);
  }
  if (connections_.size() >= most_connections || stopping_ || !has_descriptors_for_another()) {
    libraries_.ucp_listener_reject(listener_, request);
    return;
  }
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  parameters.conn_request = request;
  ucs_status_t status = UCS_OK;
  add(Driving(), parameters, std::make_shared<UcxConnection>(shared_from_this(), from.text(), nullptr, from.loopback()),
      status);
}

void WireWorker::on_connection_request(ucp_conn_request_h request, void* worker) {
  static_cast<WireWorker*>(worker)->accept(request);
}

void WireWorker::on_endpoint_error(void* worker, ucp_ep_h endpoint, ucs_status_t status) {
  WireWorker& self = *static_cast<WireWorker*>(worker);
  const auto found = self.connections_.find(endpoint);
  if (found == self.connections_.end()) {
    return;
  }
  const std::shared_ptr<UcxConnection> connection = found->second;
  const char* const why = self.libraries_.ucs_status_string(status);
  if (connection->heard()) {
    connection->fail(Driving(), ECONNRESET, std::string("ended the connection (") + why + ")");
  } else {
    connection->fail(
        Driving(), ECONNREFUSED,
        std::string("cannot be reached (") + why + "): check that `tiermap serve` runs there, and the port");
  }
}

void WireWorker::drop(const Driving&, UcxConnection& connection) {
  connections_.erase(connection.endpoint);
  given_up_.push_back(std::exchange(connection.endpoint, nullptr));
}

std::unique_ptr<WireMemory> WireWorker::register_memory(std::span<std::byte> memory) {
  if (!options_.one_sided) {
    throw StoreError(ENOTSUP, "this wire is not for one-sided reads: make it with one_sided");
  }
  ucp_mem_map_params_t parameters{};
  parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  parameters.address = memory.data();
  parameters.length = memory.size();
  ucp_mem_h handle = nullptr;
  RemoteMemory key{reinterpret_cast<std::uint64_t>(memory.data()), {}};
  ucs_status_t status = UCS_ERR_CANCELED;
  as_driver([&](const Driving&) {
    status = libraries_.ucp_mem_map(context_, &parameters, &handle);
    void* packed = nullptr;
    std::size_t bytes = 0;
    if (status == UCS_OK) {
      status = libraries_.ucp_rkey_pack(context_, handle, &packed, &bytes);
    }
    if (packed != nullptr) {
      const std::span<const std::byte> text(static_cast<const std::byte*>(packed), bytes);
      key.key.assign(text.begin(), text.end());
      libraries_.ucp_rkey_buffer_release(packed);
    }
  });
  if (status != UCS_OK) {
    throw StoreError(ENOMEM, std::string("memory of ") + format_size(memory.size()) + " cannot be registered (" +
                                 libraries_.ucs_status_string(status) + "): raise the limit of locked memory");
  }
  return std::make_unique<WireMemory>(shared_from_this(), handle, std::move(key));
}

void WireWorker::unregister_memory(void* handle) noexcept {
  as_driver([&](const Driving&) { libraries_.ucp_mem_unmap(context_, static_cast<ucp_mem_h>(handle)); });
}

}  // namespace tiermap
