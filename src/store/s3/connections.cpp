#include "store/s3/connections.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <type_traits>
#include <utility>

#include "platform/own_descriptor.hpp"
#include "platform/signals_blocked.hpp"
#include "store/s3/signing.hpp"

namespace tiermap {
namespace {

constexpr std::size_t most_body_bytes = 64 << 10;
constexpr std::size_t most_idle = 64;
constexpr int curle_too_large = 100;  ///< As libcurl's header calls it, from 8.6 on.
/// An answer on its way.
struct Transfer {
  const S3Request& request;
  S3Response& response;
};

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* transfer) noexcept {
  try {
    note_s3_header({data, size * count}, static_cast<Transfer*>(transfer)->response);
    return size * count;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* transfer) noexcept {
  const std::size_t bytes = size * count;
  const S3Request& request = static_cast<Transfer*>(transfer)->request;
  S3Response& response = static_cast<Transfer*>(transfer)->response;
  if (response.status == 206 && !request.into.empty()) {
    if (bytes > request.into.size() - response.received) {
      return 0;
    }
    std::memcpy(request.into.data() + response.received, data, bytes);
    response.received += bytes;
    return bytes;
  }
  const std::size_t room = most_body_bytes - response.body.size();
  try {
    response.body.append(data, std::min(bytes, room));
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return bytes <= room ? bytes : 0;
}

/// Never one of the numbers of standard streams that the program has closed.
curl_socket_t open_socket(void*, curlsocktype, struct curl_sockaddr* address) noexcept {
  return above_standard_streams(
      ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol));  // NOLINT(hicpp-signed-bitwise)
}

/// Of what libcurl says: whether it may go better, and what errno calls it.
std::pair<bool, int> kind_of_loss(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return {true, ETIMEDOUT};
    case CURLE_COULDNT_CONNECT:
      return {true, ECONNREFUSED};
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {true, EHOSTUNREACH};
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SSL_CONNECT_ERROR:
      return {true, EIO};
    case CURLE_OUT_OF_MEMORY:
      return {false, ENOMEM};
    default:
      return {false, EIO};
  }
}

/// Between "//" and the next '/'.
std::string authority_of(const std::string& url) {
  const std::size_t begin = url.find("//") + 2;
  return url.substr(begin, url.find('/', begin) - begin);
}

}  // namespace

/// Of the pool while a request is under way.
class S3Connections::Handle {
 public:
  explicit Handle(S3Connections& connections) : connections_(connections), curl_(connections.take()) {}
  ~Handle() {
    connections_.curl_.curl_slist_free_all(headers_);
    connections_.give_back(curl_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  template <typename Value>
  void set(CURLoption option, Value value) {
    static_assert(std::is_pointer_v<Value> || std::is_same_v<Value, long> || std::is_same_v<Value, curl_off_t>);
    if (connections_.curl_.curl_easy_setopt(curl_, option, value) == CURLE_OUT_OF_MEMORY) {
      throw std::bad_alloc();
    }
  }
  void add_header(const std::string& header) {
    curl_slist* const longer = connections_.curl_.curl_slist_append(headers_, header.c_str());
    if (longer == nullptr) {
      throw std::bad_alloc();
    }
    headers_ = longer;
  }
  CURLcode perform() {
    set(CURLOPT_HTTPHEADER, headers_);
    // A call of Tiermap's is no cancellation point.
    const CancellationHeld held;
    return connections_.curl_.curl_easy_perform(curl_);
  }

 private:
  S3Connections& connections_;
  CURL* const curl_;
  curl_slist* headers_ = nullptr;
};

S3Connections::S3Connections(const CurlFunctions& curl, S3Settings settings, const S3Options& options)
    : curl_(curl),
      settings_(std::move(settings)),
      object_url_(settings_.object_url),
      copy_source_(settings_.copy_source),
      host_(authority_of(object_url_)),
      path_(object_url_.substr(object_url_.find(host_) + host_.size())),
      connect_seconds_(options.connect_seconds),
      process_(::getpid()) {}

S3Connections::~S3Connections() {
  leave_to_parent();
  for (CURL* const handle : idle_) {
    curl_.curl_easy_cleanup(handle);
  }
}

// To close them properly would say so to the server, in the parent's name: they are left as they are.
void S3Connections::leave_to_parent() noexcept {
  if (process_ != ::getpid()) {
    idle_.clear();
    process_ = ::getpid();
  }
}

CURL* S3Connections::take() {
  {
    const std::lock_guard lock(mutex_);
    leave_to_parent();
    if (!idle_.empty()) {
      CURL* const handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
  }
  CURL* const handle = curl_.curl_easy_init();
  if (handle == nullptr) {
    throw std::bad_alloc();
  }
  return handle;
}

void S3Connections::give_back(CURL* handle) noexcept {
  curl_.curl_easy_reset(handle);  // But for its connection.
  try {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < most_idle) {
      idle_.push_back(handle);
      return;
    }
  } catch (const std::bad_alloc&) {  // One connection less is kept.
  }
  curl_.curl_easy_cleanup(handle);
}

std::uint64_t S3Connections::renewals() const {
  const std::lock_guard lock(keys_mutex_);
  return renewals_;
}

bool S3Connections::has_newer_keys(std::uint64_t renewals) {
  const std::lock_guard lock(keys_mutex_);
  if (renewals_ == renewals && renew_s3_keys(settings_)) {
    ++renewals_;
  }
  return renewals_ != renewals;
}

/// Its headers; none where nothing is signed.
std::vector<std::string> S3Connections::signature_of(const S3Request& request) const {
  const S3Settings settings = [&] {
    const std::lock_guard lock(keys_mutex_);
    return settings_;
  }();
  if (settings.access_key.empty()) {
    return {};
  }
  const S3Signed all{request.method, path_, request.query, host_, request.headers, request.body};
  return sign_s3(curl_, settings, all, std::time(nullptr));
}

S3Response S3Connections::send(const S3Request& request) {
  S3Response response;
  Transfer transfer{request, response};
  char why[CURL_ERROR_SIZE] = "";
  Handle handle(*this);
  const std::string url = object_url_ + (request.query.empty() ? "" : "?" + request.query);
  handle.set(CURLOPT_URL, url.c_str());
  handle.set(CURLOPT_PATH_AS_IS, 1L);
  handle.set(CURLOPT_PROTOCOLS_STR, "http,https");
  handle.set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  handle.set(CURLOPT_NOSIGNAL, 1L);
  handle.set(CURLOPT_USERAGENT, "tiermap");
  handle.set(CURLOPT_ERRORBUFFER, static_cast<char*>(why));
  handle.set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect_seconds_ * 1000) + 1);
  handle.set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.seconds * 1000) + 1);
  handle.set(CURLOPT_OPENSOCKETFUNCTION, &open_socket);
  handle.set(CURLOPT_HEADERFUNCTION, &on_header);
  handle.set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  handle.set(CURLOPT_WRITEFUNCTION, &on_body);
  handle.set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  handle.set(CURLOPT_BUFFERSIZE, 256L << 10);
  const bool has_body = std::strcmp(request.method, "GET") != 0 && std::strcmp(request.method, "DELETE") != 0;
  if (has_body) {
    handle.set(CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
    handle.set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    handle.add_header("Expect:");
  }
  handle.set(CURLOPT_CUSTOMREQUEST, request.method);
  for (const std::string& header : request.headers) {
    handle.add_header(header);
  }
  for (const std::string& header : signature_of(request)) {
    handle.add_header(header);
  }
  const CURLcode code = handle.perform();
  // Where only its beginning is of interest the rest is not missed.
  if (code != CURLE_OK && (code != CURLE_WRITE_ERROR || response.status == 206)) {
    const auto [passing, error_number] = kind_of_loss(code);
    const char* const reason = code == CURLE_WRITE_ERROR ? "the answer is longer than what was asked for"
                               : *why != '\0'            ? why
                                                         : curl_.curl_easy_strerror(code);
    response = S3Response();
    response.lost = s3_line(reason);
    response.passing = passing;
    response.lost_error = error_number;
    // Of a line of a header that it takes no more of libcurl says the one or, from 8.6 on, the other.
    if (code == CURLE_OUT_OF_MEMORY || static_cast<int>(code) == curle_too_large) {
      response.lost = "out of memory, or the answer has a header of more than 100 KiB";
      response.lost_remedy = "check endpoint and proxy";
    }
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
      response.lost_remedy =
          "check the endpoint, or let this machine trust who signed its certificate (Debian: update-ca-certificates)";
    }
  }
  return response;
}

}  // namespace tiermap
