#include "cluster/remote/remote_url.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <set>

#include "cluster/server/server_options.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_stripe = 4096;
constexpr std::uint64_t most_stripe = 1ULL << 40;
constexpr std::size_t most_servers = 255;

[[noreturn]] void refuse(const StoreUrl& url, const std::string& why) {
  throw StoreError(EINVAL, "store '" + url.text + "': " + why);
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find(',', from), text.size());
    parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

void take_servers(const StoreUrl& url, RemoteTarget& target) {
  std::set<std::string> seen;
  for (const std::string& server : split_list(url.host)) {
    target.servers.push_back(parse_host_and_port(server, "server"));
    if (!seen.insert(target.servers.back().text()).second) {
      refuse(url, "server " + server + " is named twice: name each once");
    }
  }
  if (target.servers.empty() || target.servers.size() > most_servers) {
    refuse(url, "there " + std::string(target.servers.empty() ? "is no server" : "are more than 255 servers") +
                    ": write remote://HOST:PORT/NAME");
  }
}

void take_layout(const StoreUrl& url, UrlOptions& options, RemoteTarget& target) {
  const std::string layout = options.text("layout");
  const std::uint64_t stripe = options.size("stripe", 0);
  const std::uint64_t copies = options.size("copies", 0);
  const std::uint64_t servers = target.servers.size();
  if (!options.text("copies").empty() && copies == 0) {
    refuse(url, "0 copies are none: choose 1 to " + std::to_string(servers) + ", as many as there are servers");
  }
  if (layout.empty() || servers == 1) {
    if (servers != 1) {
      refuse(url, "several servers and no layout: write ?layout=striped or ?layout=replicated");
    }
    if (stripe != 0 || copies > 1 || !layout.empty()) {
      refuse(url, "one server has no layout, stripe or copies: name several servers, or leave them out");
    }
    return;
  }
  if (layout != "striped" && layout != "replicated") {
    refuse(url, "layout '" + layout + "' is none: choose striped or replicated");
  }
  const bool striped = layout == "striped";
  if (!striped && stripe != 0) {
    refuse(url, "what is replicated has no stripes: leave stripe out");
  }
  const std::uint64_t bytes = stripe == 0 ? 1 << 20 : stripe;
  if (bytes < least_stripe || bytes > most_stripe || bytes % least_stripe != 0) {
    refuse(url, "stripes of " + format_size(bytes) + ": choose a multiple of 4KiB, up to 1TiB");
  }
  if (copies > servers) {
    refuse(url, std::to_string(copies) + " copies on " + std::to_string(servers) +
                    " servers: name as many servers, or ask for fewer copies");
  }
  target.layout.kind = striped ? DataSetLayout::Kind::striped : DataSetLayout::Kind::replicated;
  target.layout.servers = static_cast<std::uint32_t>(servers);
  target.layout.copies = static_cast<std::uint32_t>(copies != 0 ? copies : (striped ? 1 : servers));
  target.layout.stripe_bytes = striped ? bytes : 0;
}

}  // namespace

std::chrono::milliseconds parse_timeout(const std::string& text) {
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(result.ptr, text.data() + text.size());
  const double seconds = unit == "ms" ? number / 1000 : number;
  if (result.ec != std::errc() || (unit != "s" && unit != "ms" && !unit.empty()) || !(seconds >= 0.01) ||
      !(seconds <= 3600)) {
    throw OptionError("timeout " + quote_value(text) + " is none: write 10ms to 3600s");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

WireLogin login_from_environment(const std::string& user) {
  WireLogin login{user.empty() ? variable("TIERMAP_USER") : user, variable("TIERMAP_SECRET")};
  const std::string path = variable("TIERMAP_SECRET_FILE");
  if (login.secret.empty() && !path.empty()) {
    login.secret = read_secret_file(path);
  }
  return login;
}

RemoteTarget parse_remote_url(const StoreUrl& url) {
  RemoteTarget target;
  UrlOptions options(url);
  try {
    take_servers(url, target);
    take_layout(url, options, target);
    if (const std::string timeout = options.text("timeout"); !timeout.empty()) {
      target.timeout = parse_timeout(timeout);
    }
    target.login = login_from_environment(options.text("user"));
  } catch (const OptionError& error) {
    refuse(url, error.what());
  }
  target.place = options.text("place");
  target.readers = split_list(options.text("readers"));
  target.writers = split_list(options.text("writers"));
  target.temporary = options.choice("temporary", {"false", "true"}) == "true";
  options.finish();
  target.name = percent_decode(url.path.starts_with('/') ? url.path.substr(1) : url.path, url.text);
  if (target.temporary && target.name.empty()) {
    target.name = "temporary";
  }
  if (!is_plain_name(target.name)) {
    refuse(url, target.name.empty() ? "there is no data set: write remote://HOST:PORT/NAME"
                                    : quote_value(target.name) +
                                          " is no name of a data set: up to 64 letters, digits, '_', '-' and '.'");
  }
  return target;
}

}  // namespace tiermap
