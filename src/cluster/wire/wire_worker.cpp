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
constexpr std::uint64_t least_connection_descriptors = 3;
/// Of a worker, over TCP 17. UCX ends the process where it gets some of them.
constexpr std::uint64_t worker_descriptors = 20;
/// Where fewer are left than a worker may take, UCX may say anything.
constexpr std::uint64_t few_descriptors = 32;

bool has_descriptors(std::uint64_t wanted) noexcept {
  struct rlimit limit = {};
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  if (error || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return !error || error.value() != EMFILE;
  }
  const auto used = static_cast<std::uint64_t>(std::distance(begin(open), end(open)));
  return used + wanted <= limit.rlim_cur;
}

bool has_descriptors_for(std::uint64_t connections) noexcept {
  return has_descriptors(spare_descriptors + connections * connection_descriptors);
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
};

void require_worker_descriptors() {
  if (!has_descriptors(worker_descriptors)) {
    throw StoreError(EMFILE,
                     "UCX is not started: few files are left for this process to open: raise the limit (ulimit -n)");
  }
}

[[noreturn]] void refuse_ucx(const WireLibraries& libraries, const char* doing, ucs_status_t status) {
  const std::string failed = std::string("UCX cannot ") + doing + " (" + libraries.ucs_status_string(status) + ")";
  if (!has_descriptors(few_descriptors)) {
    throw StoreError(EMFILE, failed + ": few files are left for this process to open: raise the limit (ulimit -n)");
  }
  throw StoreError(ENETUNREACH, failed + ": check UCX_TLS and UCX_NET_DEVICES against `ucx_info -d`");
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
  require_worker_descriptors();
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
  // Whatever UCX_TCP_AF_PRIO says: with an address of the other family UCX writes behind the room for it.
  libraries_.ucp_config_modify(config, "AF_PRIO", options_.family == AddressFamily::ipv4 ? "inet" : "inet6");
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
  terms_ = {static_cast<std::uint64_t>(options_.timeout.count()), options_.largest_body, options_.secret_required};
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
    if (door_ != nullptr) {
      door_->abandon();
    }
    return;
  }
  door_.reset();
  wake_thread();
  if (thread_.joinable()) {
    thread_.join();
  }
  as_driver([this](const Driving& driving) {
    while (!connections_.empty()) {
      const std::shared_ptr<UcxConnection> connection = connections_.begin()->second;
      connection->fail(driving, ECONNRESET, "was closed here");
    }
    forget_who_does_not_come(UINT64_MAX);
    constexpr std::uint64_t patience = 1'000'000'000;
    const std::uint64_t end = now_nanoseconds() + patience;
    do {
      drive(driving);
    } while (closing_ > 0 && now_nanoseconds() < end);
    libraries_.ucp_worker_destroy(worker_);
    libraries_.ucp_cleanup(context_);
    use_.reset();
    shut_down_ = true;
  });
}

std::uint16_t WireWorker::listen(const SocketAddress& address, const std::string& text) {
  allow_open_files(std::min(most_connections * connection_descriptors, open_files_limit() - spare_descriptors));
  door_ =
      std::make_unique<Door>(address, text, terms_, service_,
                             [this](const Introduced& introduced, const SocketAddress& here, const SocketAddress& peer,
                                    std::string& why_not) { return let_in(introduced, here, peer, why_not); });
  return door_->port();
}

ucs_status_t WireWorker::make_endpoint(ucp_ep_params_t& parameters, ucp_ep_h& endpoint) {
  parameters.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {on_endpoint_error, this};
  return libraries_.ucp_ep_create(worker_, &parameters, &endpoint);
}

std::shared_ptr<UcxConnection> WireWorker::connect(const SocketAddress& address, const std::string& text,
                                                   const WireLogin& login) {
  if (!is_here()) {
    throw StoreError(ECONNRESET,
                     "server " + quote_value(text) + " is not reached from a child of fork(): open it there anew");
  }
  if (!has_descriptors(least_connection_descriptors)) {
    throw StoreError(EMFILE, "server " + quote_value(text) +
                                 " cannot be reached: no files are left for this process to open: raise the limit "
                                 "(ulimit -n)");
  }
  const Introduced introduced = introduce_to(address, text, login, terms_, now_nanoseconds() + timeout_nanoseconds());
  const auto connection =
      std::make_shared<UcxConnection>(shared_from_this(), text, UcxConnection::Side::client, introduced);
  const SocketAddress there = address.by_ucx(introduced.port);
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  parameters.sockaddr = {there.get(), there.bytes};
  ucs_status_t status = UCS_ERR_CANCELED;
  as_driver([&](const Driving&) {
    status = make_endpoint(parameters, connection->endpoint);
    if (status == UCS_OK) {
      connections_.emplace(connection->endpoint, connection);
      connection->meet();
    }
  });
  if (status != UCS_OK) {
    refuse_ucx(libraries_, ("reach " + text).c_str(), status);
  }
  return connection;
}

std::uint16_t WireWorker::let_in(const Introduced& introduced, const SocketAddress& here, const SocketAddress& peer,
                                 std::string& why_not) {
  std::uint16_t port = 0;
  why_not = "is ending: connect to another one";
  as_driver([&](const Driving&) {
    const std::size_t others = connections_.size() + expected_.size() + unmet_.size();
    if (others >= most_connections || !has_descriptors_for(expected_.size() + 1)) {
      why_not = "has no room for more than " + std::to_string(connections_.size()) +
                " connections: end some, or let it have more open files (ulimit -Hn)";
      return;
    }
    if (here.family() != options_.family) {  // Of [::], by [::1].
      why_not = "is not reached by its loopback address: connect to another one of its addresses";
      return;
    }
    const SocketAddress any = here.by_ucx(0);
    ucp_listener_params_t parameters{};
    parameters.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    parameters.sockaddr = {any.get(), any.bytes};
    Expected& expected =
        expected_.insert_or_assign(introduced.ticket, Expected{introduced, peer.text(), this}).first->second;
    parameters.conn_handler = {on_connection_request, &expected};
    const ucs_status_t status = libraries_.ucp_listener_create(worker_, &parameters, &expected.listener);
    ucp_listener_attr_t attributes{};
    attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    if (status != UCS_OK) {
      expected_.erase(introduced.ticket);
    } else if (libraries_.ucp_listener_query(expected.listener, &attributes) == UCS_OK) {
      port = SocketAddress{attributes.sockaddr, sizeof(attributes.sockaddr)}.port();
    }
    why_not = std::string("cannot listen by UCX (") + libraries_.ucs_status_string(status) +
              "): check UCX_TLS and UCX_NET_DEVICES there";
  });
  return port;
}

void WireWorker::on_connection_request(ucp_conn_request_h request, void* expected) {
  Expected& whom = *static_cast<Expected*>(expected);
  whom.worker->accept(whom, request);
}

void WireWorker::accept(Expected& expected, ucp_conn_request_h request) {
  if (std::exchange(expected.reached, true) || stopping_) {
    libraries_.ucp_listener_reject(expected.listener, request);
    return;
  }
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  parameters.conn_request = request;
  ucp_ep_h endpoint = nullptr;
  if (make_endpoint(parameters, endpoint) == UCS_OK) {
    unmet_.emplace(endpoint, now_nanoseconds());
  }
}

void WireWorker::take_arrival(ucp_ep_h endpoint, std::span<const std::byte> frame) {
  const std::optional<ArrivedMessage> message = take_message(frame);
  if (!message.has_value() || !message->intact || message->header.role != MessageHeader::Role::control ||
      message->header.kind != static_cast<std::uint16_t>(ControlKind::arrival) ||
      message->body.size() != sizeof(WireProof) || !unmet_.contains(endpoint)) {
    return;
  }
  Arrival arrival{endpoint, {}};
  std::ranges::copy(message->body, arrival.ticket.begin());
  arrivals_.push_back(arrival);
}

void WireWorker::welcome_arrivals(const Driving&) {
  for (const Arrival& arrival : std::exchange(arrivals_, {})) {
    const auto found = expected_.find(arrival.ticket);
    if (found == expected_.end() || unmet_.erase(arrival.endpoint) == 0) {
      continue;
    }
    const auto connection = std::make_shared<UcxConnection>(shared_from_this(), found->second.peer,
                                                            UcxConnection::Side::server, found->second.introduced);
    libraries_.ucp_listener_destroy(found->second.listener);
    expected_.erase(found);
    connection->endpoint = arrival.endpoint;
    connections_.emplace(arrival.endpoint, connection);
    connection->meet();
  }
}

void WireWorker::forget_who_does_not_come(std::uint64_t now) {
  const std::uint64_t timeout = std::min(timeout_nanoseconds(), longest_introduction_nanoseconds);
  // Where this process has stood still all may be late, and a thread of UCX's own is about to take who has come
  // meanwhile: it goes on with a listener that is gone. So that is kept for a while, in which nobody is let in.
  constexpr std::uint32_t looks = 32;
  for (auto at = expected_.begin(); at != expected_.end();) {
    Expected& expected = at->second;
    const bool late = now > expected.introduced.began + timeout;
    expected.reached = expected.reached || late;
    if (late && (now == UINT64_MAX || ++expected.late > looks)) {
      libraries_.ucp_listener_destroy(expected.listener);
      at = expected_.erase(at);
    } else {
      ++at;
    }
  }
  std::erase_if(unmet_, [&](const auto& one) {
    const bool late = now > one.second + timeout;
    if (late) {
      given_up_.push_back(one.first);
    }
    return late;
  });
}

void WireWorker::on_endpoint_error(void* worker, ucp_ep_h endpoint, ucs_status_t status) {
  WireWorker& self = *static_cast<WireWorker*>(worker);
  const auto found = self.connections_.find(endpoint);
  if (found == self.connections_.end()) {
    if (self.unmet_.erase(endpoint) != 0) {
      self.given_up_.push_back(endpoint);
    }
    return;
  }
  const std::shared_ptr<UcxConnection> connection = found->second;
  const char* const why = self.libraries_.ucs_status_string(status);
  if (connection->heard()) {
    connection->fail(Driving(), ECONNRESET, std::string("ended the connection (") + why + ")");
  } else {
    connection->fail(
        Driving(), ECONNREFUSED,
        std::string("let us in and cannot be reached by UCX (") + why +
            "): check UCX_TLS and UCX_NET_DEVICES on both nodes, and that its ports are open between them");
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
