#include "cluster/server/server_options.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <system_error>

#include "cluster/memory_protocol.hpp"
#include "config/size.hpp"
#include "config/yaml_keys.hpp"
#include "store/file_descriptor.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t least_secret_bytes = 8;
constexpr std::size_t longest_secret_bytes = 4096;

void require_name(const YamlKeys& keys, const std::string& name) {
  if (!is_plain_name(name)) {
    keys.refuse("name", quote_value(name) + " is no name: write up to 64 letters, digits, '_', '-' and '.'");
  }
}

ServerUser read_user(YamlKeys& keys) {
  if (keys.has("secret") == keys.has("secret_file")) {
    keys.refuse("name", "comes with two secrets or none: give one of secret and secret_file");
  }
  ServerUser user;
  user.secret = keys.has("secret") ? keys.text("secret", "") : read_secret_file(keys.text("secret_file", ""));
  user.administrator = keys.flag("administrator", false);
  if (user.secret.size() < least_secret_bytes) {
    keys.refuse("name",
                "has a secret of fewer than 8 bytes: choose a longer one, such as `openssl rand -hex 32` prints");
  }
  return user;
}

void read_users(YamlKeys& all, const std::string& path, ServerOptions& options) {
  for (const YAML::Node& node : all.list("users", "users: [{name: ann, secret_file: /path}]")) {
    YamlKeys keys(node, path, "user " + std::to_string(options.users.size() + 1),
                  {"name", "secret", "secret_file", "administrator"});
    const std::string name = keys.text("name", "");
    if (!keys.has("name")) {
      throw OptionError(yaml_position(path, node.Mark()) + ": a user without a name: give it one");
    }
    require_name(keys, name);
    const ServerUser user = read_user(keys);
    if (!options.users.emplace(name, user).second) {
      keys.refuse("name", quote_value(name) + " is another user's already: choose one for each");
    }
  }
}

WorkerBounds read_workers(YamlKeys& keys) {
  constexpr std::uint32_t most = 256;
  const auto count = [&](const char* key, std::uint32_t missing, std::uint32_t least) {
    const double said = keys.number(key, missing);
    if (keys.has(key) && (said < least || said > most || said != std::floor(said))) {
      keys.refuse(key, "cannot be " + keys.text(key, "") + ": choose a whole number from " + std::to_string(least) +
                           " to " + std::to_string(most));
    }
    return static_cast<std::uint32_t>(said);
  };
  WorkerBounds bounds;
  bounds.least = count("least_workers", bounds.least, 1);
  bounds.most = count("most_workers", std::max(bounds.most, bounds.least), bounds.least);
  return bounds;
}

std::optional<TieringOptions> read_tiers(YamlKeys& keys) {
  const std::string path = keys.text("tiers", "");
  return path.empty() ? std::nullopt : std::optional(read_tiering_options(path));
}

ServedDataSet read_data_set(const YAML::Node& node, const std::string& path, std::size_t number) {
  YamlKeys keys(node, path, "data set " + std::to_string(number),
                {"name", "store", "size", "read_only", "owner", "readers", "writers", "tiers"});
  ServedDataSet set;
  set.name = keys.text("name", "");
  set.store = keys.text("store", "");
  if (set.name.empty() || set.store.empty()) {
    throw OptionError(yaml_position(path, node.Mark()) + ": a data set without name or store: give it both");
  }
  require_name(keys, set.name);
  set.bytes = keys.size("size", 0);
  set.read_only = keys.flag("read_only", false);
  set.rights = {keys.text("owner", ""), keys.texts("readers"), keys.texts("writers")};
  set.tiers = read_tiers(keys);
  return set;
}

void check_rights(const ServerOptions& options, const ServedDataSet& set, const std::string& path) {
  const auto check_user = [&](const char* what, const std::string& user) {
    if (!options.users.contains(user)) {
      throw OptionError(path + ": data set " + quote_value(set.name) + what + quote_value(user) +
                        ", who is no user: name one of the users");
    }
  };
  if (!set.rights.owner.empty()) {
    check_user(" belongs to ", set.rights.owner);
  }
  for (const auto* const names : {&set.rights.readers, &set.rights.writers}) {
    for (const std::string& name : *names) {
      if (name != "*") {
        check_user(names == &set.rights.readers ? " is to be read by " : " is to be written by ", name);
      }
    }
  }
}

void check(const ServerOptions& options, const std::string& path) {
  for (const ServedDataSet& set : options.data_sets) {
    check_rights(options, set, path);
  }
  if (options.users.empty() && !resolve(options.listen).loopback()) {
    throw OptionError(path + ": listens on " + options.listen.text() +
                      " and has no users: anybody could read and write everything; name users, or listen on 127.0.0.1");
  }
}

}  // namespace

std::string read_secret_file(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw OptionError("secret file " + quote_value(path) + " " + why);
  };
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    refuse("cannot be read (" + std::generic_category().message(errno) + "): check path and permissions");
  }
  if (!S_ISREG(status.st_mode) || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    refuse(S_ISREG(status.st_mode) ? "may be read by others: chmod 600 it" : "is no regular file: name one");
  }
  std::array<char, longest_secret_bytes + 2> text{};
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) {
    refuse("cannot be read (" + std::generic_category().message(errno) + "): look after the disk it is on");
  }
  std::string secret(text.data(), static_cast<std::size_t>(got));
  secret = secret.substr(0, secret.find('\n'));
  if (secret.ends_with('\r')) {  // As editors of other systems end lines.
    secret.pop_back();
  }
  if (secret.size() > longest_secret_bytes) {
    refuse("has more than 4096 bytes in its first line: write a shorter secret there");
  }
  if (secret.empty()) {
    refuse("has nothing in its first line: write the secret there");
  }
  return secret;
}

ServerOptions parse_server_options(const std::string& yaml, const std::string& path,
                                   const std::optional<HostAndPort>& listen) {
  const std::string remedy = "write 'listen: HOST:PORT' and what else docs/cluster.md names";
  const YAML::Node root = load_yaml(yaml, path, "leave one mapping", remedy);
  if (!root.IsMap()) {
    throw OptionError(yaml_position(path, root.Mark()) + ": no mapping: " + remedy);
  }
  YamlKeys keys(root, path, "the file",
                {"listen", "timeout_seconds", "one_sided", "memory", "directory", "directory_size", "tiers", "users",
                 "data_sets", "least_workers", "most_workers"});
  ServerOptions options;
  options.listen = parse_host_and_port(keys.text("listen", options.listen.text()), path + ": listen", true);
  options.listen = listen.value_or(options.listen);
  const double timeout = keys.number("timeout_seconds", 5);
  if (timeout < 0.01 || timeout > 3600) {
    keys.refuse("timeout_seconds", "is out of range: choose 0.01 to 3600");
  }
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1000));
  options.one_sided = keys.flag("one_sided", false);
  options.memory_bytes = keys.has("memory") ? parse_budget(keys.text("memory", ""), path + ": memory") : 0;
  options.directory = keys.text("directory", "");
  options.directory_bytes = keys.size("directory_size", 0);
  if (options.directory.empty() == keys.has("directory_size")) {
    keys.refuse(keys.has("directory_size") ? "directory_size" : "directory",
                "stands alone: give directory and directory_size");
  }
  options.tiers = read_tiers(keys);
  options.workers = read_workers(keys);
  read_users(keys, path, options);
  for (const YAML::Node& node : keys.list("data_sets", "data_sets: [{name: points, store: URL}]")) {
    options.data_sets.push_back(read_data_set(node, path, options.data_sets.size() + 1));
  }
  check(options, path);
  return options;
}

ServerOptions read_server_options(const std::string& path, const std::optional<HostAndPort>& listen) {
  return parse_server_options(read_yaml_file(path, "configuration", "name a YAML file (docs/cluster.md)"), path,
                              listen);
}

}  // namespace tiermap
