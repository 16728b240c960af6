#include "cluster/remote/open.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "cluster/remote/remote_store.hpp"
#include "cluster/wire/proof.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::unique_ptr<Wire> make_wire(const RemoteTarget& target) {
  WireOptions options;
  options.timeout = target.timeout;
  options.family = common_family(target.servers);
  options.loopback = all_loopback(target.servers);
  return std::make_unique<Wire>(options);
}

/// The servers that can be reached, by number; why not, of the last one that could not.
struct Reached {
  std::vector<std::shared_ptr<MemoryClient>> clients;
  std::size_t count = 0;
  std::optional<StoreError> failure;
};

Reached reach(Wire& wire, const RemoteTarget& target) {
  Reached reached;
  for (const HostAndPort& server : target.servers) {
    reached.clients.push_back(nullptr);
    try {
      reached.clients.back() = std::make_shared<MemoryClient>(wire, server, target.login);
      ++reached.count;
    } catch (const StoreError& error) {
      reached.failure = error;
    }
  }
  return reached;
}

/// How many servers may be out of reach so that what is read is sure to be what was written last.
std::size_t may_be_unreached(const DataSetLayout& layout) {
  return layout.kind == DataSetLayout::Kind::single ? 0 : layout.copies - 1;
}

/// How many servers must have the newest version. What is replicated is on each of them as a whole.
std::size_t must_be_newest(const DataSetLayout& layout, bool writing) {
  switch (layout.kind) {
    case DataSetLayout::Kind::replicated:
      return writing ? layout.copies : 1;
    case DataSetLayout::Kind::striped:
      return writing ? layout.servers : layout.servers - layout.copies + 1;
    case DataSetLayout::Kind::single:
      break;
  }
  return 1;
}

void check_layout(const DataSetFacts& facts, const RemoteTarget& target, std::size_t index, const std::string& server) {
  if (!facts.layout.same_but_index(target.layout) ||
      (facts.layout.index != index && target.layout.kind == DataSetLayout::Kind::striped)) {
    throw StoreError(
        EINVAL,
        "server " + quote_value(server) + ": data set " + quote_value(target.name) + " is " + facts.layout.text() +
            (facts.layout.same_but_index(target.layout) ? ", in another order" : ", and not " + target.layout.text()) +
            ": name servers and layout as when it was created");
  }
}

std::unique_ptr<RemoteStore> attach(std::unique_ptr<Wire> wire, const Reached& reached, const RemoteTarget& target,
                                    bool writing, const std::string& url) {
  std::vector<std::unique_ptr<RemoteDataSet>> parts(target.servers.size());
  std::optional<StoreError> failure = reached.failure;
  std::uint64_t newest = 0;
  std::uint64_t announced = 0;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    if (reached.clients[index] == nullptr) {
      continue;
    }
    try {
      parts[index] = std::make_unique<RemoteDataSet>(reached.clients[index], target.name, writing);
    } catch (const StoreError& error) {
      if (error.code().value() != ENOENT || target.servers.size() == 1) {
        throw;
      }
      failure = error;
      continue;
    }
    check_layout(parts[index]->facts(), target, index, parts[index]->server());
    newest = std::max(newest, parts[index]->facts().version);
    announced = std::max(announced, parts[index]->facts().announced);
  }
  std::size_t unreached = 0;
  std::size_t usable = 0;
  const RemoteDataSet* first = nullptr;
  for (auto& part : parts) {
    if (part == nullptr) {
      ++unreached;
      continue;
    }
    const bool copied = target.layout.kind == DataSetLayout::Kind::replicated || target.layout.copies > 1;
    if (part->facts().version != newest && copied) {
      failure = StoreError(ESTALE, "server " + quote_value(part->server()) + " has an older version of data set " +
                                       quote_value(target.name) + ": drop it everywhere, and load it anew");
      part.reset();
      continue;
    }
    ++usable;
    first = first == nullptr ? part.get() : first;
    if (part->facts().identity != first->facts().identity) {
      throw StoreError(EINVAL, "servers " + quote_value(first->server()) + " and " + quote_value(part->server()) +
                                   " have different data sets called " + quote_value(target.name) +
                                   ": name those that it was created on");
    }
  }
  if (unreached > may_be_unreached(target.layout) || usable < must_be_newest(target.layout, writing)) {
    throw failure.value();
  }
  // Where the last who changed the size died before all servers had heard of it, what all of them have.
  std::uint64_t bytes = first->facts().whole_bytes;
  for (const auto& part : parts) {
    bytes = part == nullptr ? bytes : std::min(bytes, part->facts().whole_bytes);
  }
  return std::make_unique<RemoteStore>(std::move(wire), std::move(parts), target.layout,
                                       RemoteVersion{newest, announced}, bytes, writing, url);
}

bool is_on(MemoryClient& client, const std::string& name) {
  return !client.list(name).empty();
}

/// Takes back what was made on the servers before `refused`. Returns which of them that one is by another name, as what
/// was there went with it; empty if none is.
std::string take_back(const Reached& reached, const std::string& name, std::size_t refused) {
  bool there = false;
  const auto look = [&] {
    try {
      there = is_on(*reached.clients[refused], name);
    } catch (const StoreError&) {  // It is gone, and why nothing was made there is known.
    }
  };
  std::string same;
  look();
  for (std::size_t index = refused; index-- > 0;) {
    const bool was_there = there;
    reached.clients[index]->drop(name);
    look();
    same = was_there && !there ? reached.clients[index]->server() : same;
  }
  return same;
}

void create_on(const Reached& reached, const RemoteTarget& target, std::uint64_t bytes) {
  if (reached.failure.has_value()) {
    throw *reached.failure;
  }
  if (bytes > DataSetPlacement::most_bytes) {
    throw StoreError(EFBIG, "data set " + quote_value(target.name) + " cannot have " + std::to_string(bytes) +
                                " bytes: choose up to " + format_size(DataSetPlacement::most_bytes));
  }
  CreateForm form{target.name, target.place, target.readers, target.writers, bytes, 0, target.layout};
  const WireNonce nonce = draw_nonce();
  std::memcpy(&form.identity, nonce.data(), sizeof(form.identity));
  const std::uint64_t here = DataSetPlacement(target.layout).local_bytes(bytes);
  for (std::size_t index = 0; index < reached.clients.size(); ++index) {
    form.layout.index = static_cast<std::uint32_t>(index);
    try {
      reached.clients[index]->create(form, here, target.temporary);
    } catch (const StoreError&) {
      const std::string same = take_back(reached, target.name, index);
      if (!same.empty()) {
        throw StoreError(EINVAL, quote_value(same) + " and " + quote_value(reached.clients[index]->server()) +
                                     " are one server: name each once");
      }
      throw;
    }
  }
}

bool is_anywhere(const Reached& reached, const std::string& name) {
  return std::ranges::any_of(reached.clients,
                             [&](const auto& client) { return client != nullptr && is_on(*client, name); });
}

/// Before any of it is gone. Of a part of its servers, what the others have would be of use to nobody; and whoever has
/// lost one server, or never found it, is attached to the others alone.
void refuse_to_drop(const Reached& reached, const RemoteTarget& target) {
  const std::string& name = target.name;
  for (const auto& client : reached.clients) {
    for (const DataSetLine& line : client == nullptr ? std::vector<DataSetLine>() : client->list(name)) {
      if (line.layout != target.layout.text()) {
        throw StoreError(EINVAL, "server " + quote_value(client->server()) + ": data set " + quote_value(name) +
                                     " is " + line.layout + ", and not " + target.layout.text() +
                                     ": name servers and layout as when it was created");
      }
      if (line.readers + line.writers != 0) {
        throw StoreError(EBUSY, "server " + quote_value(client->server()) + ": data set " + quote_value(name) +
                                    " is in use by " + std::to_string(line.readers + line.writers) +
                                    ": drop it when they have ended");
      }
    }
  }
}

/// Two processes with one URL have two data sets.
void name_temporary(RemoteTarget& target, OpenMode mode) {
  if (mode == OpenMode::read_only || mode == OpenMode::read_write) {
    throw StoreError(EINVAL, "what is temporary is there for whoever makes it alone: leave out temporary=true");
  }
  const WireNonce nonce = draw_nonce();
  target.name += "-";
  for (std::size_t index = 0; index < 8; ++index) {
    const auto byte = static_cast<unsigned>(nonce[index]);
    target.name += "0123456789abcdef"[byte >> 4U];
    target.name += "0123456789abcdef"[byte & 15U];
  }
  if (!is_plain_name(target.name)) {
    throw StoreError(EINVAL, "the name of what is temporary is too long: write up to 47 characters");
  }
}

/// The data set as the URL in `text` says, made if `mode` asks for that.
std::unique_ptr<RemoteStore> open_target(const RemoteTarget& target, OpenMode mode, std::uint64_t bytes,
                                         const std::string& text) {
  std::unique_ptr<Wire> wire = make_wire(target);
  const Reached reached = reach(*wire, target);
  if (reached.count == 0) {
    throw reached.failure.value();
  }
  if (mode == OpenMode::create || (mode == OpenMode::open_or_create && !is_anywhere(reached, target.name))) {
    create_on(reached, target, bytes);
  }
  return attach(std::move(wire), reached, target, mode != OpenMode::read_only, text);
}

[[noreturn]] void throw_of_store(const StoreUrl& url, const StoreError& error) {
  throw StoreError(error.code().value(), "store '" + url.text + "': " + error.what());
}

}  // namespace

std::unique_ptr<Store> open_remote(const StoreUrl& url, OpenMode mode, const NewStore& made) {
  RemoteTarget target = parse_remote_url(url);
  try {
    if (target.temporary) {
      name_temporary(target, mode);
    }
    return open_target(target, mode, made.bytes(), url.text);
  } catch (const StoreError& error) {
    throw_of_store(url, error);
  }
}

std::unique_ptr<RemoteStore> create_unkept_remote(const StoreUrl& url, std::uint64_t bytes) {
  RemoteTarget target = parse_remote_url(url);
  target.temporary = true;
  try {
    return open_target(target, OpenMode::create, bytes, url.text);
  } catch (const StoreError& error) {
    throw_of_store(url, error);
  }
}

void create_remote(const RemoteTarget& target, std::uint64_t bytes) {
  const std::unique_ptr<Wire> wire = make_wire(target);
  create_on(reach(*wire, target), target, bytes);
}

std::vector<RemotePart> look_at_remote(const RemoteTarget& target) {
  const std::unique_ptr<Wire> wire = make_wire(target);
  std::vector<RemotePart> parts;
  std::optional<StoreError> failure;
  bool found = false;
  for (const HostAndPort& server : target.servers) {
    RemotePart part{server.text(), std::nullopt, ""};
    try {
      const std::vector<DataSetLine> lines = MemoryClient(*wire, server, target.login).list(target.name);
      if (lines.empty()) {
        throw StoreError(ENOENT, "server " + quote_value(part.server) + ": data set " + quote_value(target.name) +
                                     " is not here, or not for you: see what `tiermap serve list` shows, or create it");
      }
      part.line = lines.front();
      found = true;
    } catch (const StoreError& error) {
      part.failure = error.what();
      failure = error;
    }
    parts.push_back(std::move(part));
  }
  if (!found) {
    throw failure.value();
  }
  return parts;
}

void drop_remote(const RemoteTarget& target) {
  const std::unique_ptr<Wire> wire = make_wire(target);
  const Reached reached = reach(*wire, target);
  refuse_to_drop(reached, target);
  std::optional<StoreError> failure = reached.failure;
  for (const auto& client : reached.clients) {
    try {
      if (client != nullptr) {
        client->drop(target.name);
      }
    } catch (const StoreError& error) {
      failure = error;
    }
  }
  if (failure.has_value()) {
    throw *failure;
  }
}

}  // namespace tiermap
