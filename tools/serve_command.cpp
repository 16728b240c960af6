// `tiermap serve`: a memory server, and what is to be done with the data sets of running ones.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cluster/remote/memory_client.hpp"
#include "cluster/remote/open.hpp"
#include "cluster/remote/remote_store.hpp"
#include "cluster/server/memory_server.hpp"
#include "commands.hpp"
#include "config/size.hpp"
#include "interruption.hpp"
#include "observe/progress.hpp"
#include "platform/ignored_signal.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t copied_at_once = 4 << 20;

struct ServeOptions {
  std::string config;
  std::string listen;
  std::string memory;
  std::string server;
  std::string url;
  std::string other;
  std::string size;
  bool json = false;
};

/// Those that end a server; blocked before it has threads, so that it is this one that waits for them.
sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(number)) {
      sigaddset(&set, number);
    }
  }
  return set;
}

/// What the options say stands above the file.
ServerOptions server_options(const ServeOptions& options) {
  ServerOptions server;
  std::optional<HostAndPort> listen;
  if (!options.listen.empty()) {
    listen = parse_host_and_port(options.listen, "--listen", true);
  }
  if (!options.config.empty()) {
    server = read_server_options(options.config, listen);
  }
  server.listen = listen.value_or(server.listen);
  if (!options.memory.empty()) {
    server.memory_bytes = parse_budget(options.memory, "--memory");
  }
  if (options.config.empty() && options.memory.empty()) {
    throw OptionError("a server with nothing to serve: give it --config node.yaml, or --memory 1GiB");
  }
  return server;
}

/// Answers are made and gone again: what malloc gave back to the kernel after each would be cleared anew for the next.
void keep_freed_memory() {
  constexpr int kept_bytes = 64 << 20;
  mallopt(M_TRIM_THRESHOLD, kept_bytes);
  mallopt(M_MMAP_THRESHOLD, kept_bytes);
}

void serve(const ServeOptions& options) {
  keep_freed_memory();
  const sigset_t signals = ending_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  MemoryServer server(server_options(options));
  fmt::print("listening on {}, {} data sets\n", server.address().text(), server.data_sets());
  std::fflush(stdout);
  int number = 0;
  sigwait(&signals, &number);
  bool failed = false;
  for (const std::string& line : server.end()) {
    std::fputs(("tiermap: " + line + "\n").c_str(), stderr);
    failed = true;
  }
  if (failed) {
    throw ExitCode{1};
  }
}

RemoteTarget target_of(const std::string& text) {
  const StoreUrl url = parse_store_url(text);
  if (url.scheme != "remote") {
    throw OptionError(quote_value(text) + " is no data set of a server: write remote://HOST:PORT/NAME");
  }
  RemoteTarget target = parse_remote_url(url);
  if (target.temporary) {
    throw OptionError(quote_value(text) + " is gone when this command ends: leave out temporary=true");
  }
  return target;
}

std::string attached_by(const DataSetLine& line) {
  const std::string who = line.writers != 0   ? "one that writes"
                          : line.readers == 0 ? "nobody"
                          : line.readers == 1 ? "one that reads"
                                              : std::to_string(line.readers) + " that read";
  return line.damaged == 0 ? who
                           : who + "; found damaged " + std::to_string(line.damaged) + " times, made good " +
                                 std::to_string(line.mended);
}

/// Files of a server's configuration need not be called by UTF-8.
void print_json(const nlohmann::json& report) {
  fmt::print("{}\n", report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void list(const ServeOptions& options) {
  const HostAndPort server = parse_host_and_port(options.server, "server");
  const SocketAddress address = resolve(server);
  Wire wire{WireOptions{.loopback = address.loopback(), .family = address.family()}};
  MemoryClient client(wire, server, login_from_environment(""));
  const std::vector<DataSetLine> lines = client.list("");
  if (options.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const DataSetLine& line : lines) {
      all.push_back({{"name", line.name},
                     {"bytes", line.bytes},
                     {"owner", line.owner},
                     {"place", line.place},
                     {"readers", line.readers},
                     {"writers", line.writers},
                     {"layout", line.layout},
                     {"damaged_blocks", line.damaged},
                     {"mended_blocks", line.mended}});
    }
    print_json(all);
    return;
  }
  for (const DataSetLine& line : lines) {
    fmt::print("{:<24} {:>10}  {:<12} {}, {}, attached by {}\n", line.name, format_size_rounded(line.bytes),
               line.owner.empty() ? "-" : line.owner, line.place, line.layout, attached_by(line));
  }
}

void create(const ServeOptions& options) {
  create_remote(target_of(options.url), parse_size(options.size, "--size"));
}

void stat(const ServeOptions& options) {
  const RemoteTarget target = target_of(options.url);
  const std::vector<RemotePart> parts = look_at_remote(target);
  const DataSetLine& any =
      *std::ranges::find_if(parts, [](const RemotePart& part) { return part.line.has_value(); })->line;
  if (options.json) {
    nlohmann::json servers = nlohmann::json::array();
    for (const RemotePart& part : parts) {
      servers.push_back({{"server", part.server}});
      if (part.line.has_value()) {
        servers.back().update({{"bytes", part.line->bytes},
                               {"place", part.line->place},
                               {"readers", part.line->readers},
                               {"writers", part.line->writers},
                               {"damaged_blocks", part.line->damaged},
                               {"mended_blocks", part.line->mended}});
      } else {
        servers.back()["failure"] = part.failure;
      }
    }
    print_json({{"name", any.name},
                {"bytes", any.whole_bytes},
                {"layout", any.layout},
                {"owner", any.owner},
                {"servers", servers}});
    return;
  }
  fmt::print("{}: {} bytes, {}, owner {}\n", any.name, any.whole_bytes, any.layout,
             any.owner.empty() ? "-" : any.owner);
  for (const RemotePart& part : parts) {
    fmt::print("{:<24} {}\n", part.server,
               part.line.has_value() ? fmt::format("{:>10}  {}, attached by {}", format_size_rounded(part.line->bytes),
                                                   part.line->place, attached_by(*part.line))
                                     : part.failure);
  }
}

std::string size_remedy(int error_number) {
  switch (error_number) {
    case ENOSPC:
      return ": drop others, or give its servers more room";
    case ENOMEM:
      return ": in memory it becomes eight times as long as it was made, or 1GiB: make a longer one, and load it from "
             "this one";
    default:
      return "";
  }
}

void resize(const ServeOptions& options) {
  target_of(options.url);
  const std::uint64_t bytes = parse_size(options.size, "--size");
  if (const int result = open_store(options.url, OpenMode::read_write)->resize(bytes); result != 0) {
    throw StoreError(-result, "store '" + options.url + "' cannot be made " + format_size(bytes) + ": " +
                                  error_text(-result) + size_remedy(-result));
  }
}

void drop(const ServeOptions& options) {
  drop_remote(target_of(options.url));
}

std::string write_remedy(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT ? ": make room where it lies, or choose another place" : "";
}

void copy(Store& from, Store& to, const char* what) {
  const std::uint64_t bytes = from.size_bytes();
  ProgressDisplay progress(what, bytes, ProgressDisplay::Unit::bytes);
  std::vector<char> buffer(copied_at_once);
  for (std::uint64_t offset = 0; offset < bytes;) {
    stop_if_interrupted();
    const std::int64_t got = from.read(buffer.data(), buffer.size(), offset);
    if (got <= 0) {
      throw StoreError(got < 0 ? static_cast<int>(-got) : EIO, "store '" + from.name() + "' cannot be read at " +
                                                                   std::to_string(offset) + ": " +
                                                                   error_text(got < 0 ? static_cast<int>(-got) : EIO));
    }
    for (std::int64_t done = 0; done < got;) {
      const std::int64_t put = to.write(buffer.data() + done, static_cast<std::size_t>(got - done),
                                        offset + static_cast<std::uint64_t>(done));
      if (put <= 0) {
        const int error_number = put < 0 ? static_cast<int>(-put) : EIO;
        throw StoreError(error_number, "store '" + to.name() + "' cannot be written at " + std::to_string(offset) +
                                           ": " + error_text(error_number) + write_remedy(error_number));
      }
      done += put;
    }
    offset += static_cast<std::uint64_t>(got);
    progress.set(offset);
  }
  if (const int result = to.flush(); result != 0) {
    throw StoreError(-result,
                     "store '" + to.name() + "' cannot be flushed: " + error_text(-result) + write_remedy(-result));
  }
  progress.finish();
}

/// A data set that was not copied as a whole is none, whatever ends this.
void copy_to_data_set(Store& from, const std::string& url, const char* what) {
  catch_signals();
  const std::unique_ptr<RemoteStore> to = create_unkept_remote(parse_store_url(url), from.size_bytes());
  copy(from, *to, what);
  if (const int result = to->keep(); result != 0) {
    throw StoreError(-result, "store '" + to->name() + "' cannot be kept on all its servers: " + error_text(-result) +
                                  ": drop it, and copy it again");
  }
}

void load(const ServeOptions& options) {
  target_of(options.url);
  copy_to_data_set(*open_store(options.other, OpenMode::read_only), options.url, "loading");
}

void save(const ServeOptions& options) {
  target_of(options.url);
  const std::unique_ptr<Store> from = open_store(options.url, OpenMode::read_only);
  const StoreUrl url = parse_store_url(options.other);
  if (url.scheme == "remote") {
    target_of(options.other);
    copy_to_data_set(*from, options.other, "saving");
    return;
  }
  const std::string place = path_on_disk(url);
  catch_signals();
  std::unique_ptr<Store> to = open_store(options.other, OpenMode::create, from->size_bytes());
  try {
    copy(*from, *to, "saving");
  } catch (...) {
    to.reset();
    std::error_code ignored;
    std::filesystem::remove_all(place, ignored);
    throw;
  }
}

}  // namespace

CLI::App* add_serve_command(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("serve",
                                                   "Serve data sets to other processes and nodes (remote: stores) "
                                                   "until SIGTERM; or, with one of the subcommands, see "
                                                   "to the data sets of servers that run. Who asks is told by "
                                                   "TIERMAP_USER, and TIERMAP_SECRET or TIERMAP_SECRET_FILE.");
  const auto options = std::make_shared<ServeOptions>();
  command->require_subcommand(0, 1);
  command->add_option("--config", options->config, "The server's YAML file (docs/cluster.md).")->type_name("FILE");
  command
      ->add_option("--listen", options->listen,
                   "Where to listen, instead of where the file says; port 0 takes a free one.")
      ->type_name("HOST:PORT");
  command->add_option("--memory", options->memory, "DRAM for data sets, such as 4GiB or 50%, instead of the file's.")
      ->type_name("SIZE");
  command->callback([options, command] {
    if (command->get_subcommands().empty()) {
      serve(*options);
    }
  });
  const auto add = [&](const char* name, const char* description, void (*action)(const ServeOptions&)) {
    CLI::App* const one = command->add_subcommand(name, description);
    one->callback([options, action] { action(*options); });
    return one;
  };
  const auto url = [&](CLI::App* one) {
    one->add_option("URL", options->url, "The data set: remote://HOST:PORT/NAME, with the layout if it has one.")
        ->required();
  };
  CLI::App* const listing = add("list", "List the data sets of a server that the user may read.", list);
  listing->add_option("SERVER", options->server, "HOST:PORT.")->required();
  listing->add_flag("--json", options->json, "Print a JSON array instead of text.");
  CLI::App* const creating = add("create", "Make a data set of zeros.", create);
  url(creating);
  creating->add_option("--size", options->size, "Its size, such as 16GiB.")->type_name("SIZE")->required();
  CLI::App* const telling = add("stat", "Say how large a data set is and where it lies, without attaching it.", stat);
  url(telling);
  telling->add_flag("--json", options->json, "Print a JSON object instead of text.");
  CLI::App* const resizing =
      add("resize", "Change the size of a data set that nobody is attached to; what is added is zeros.", resize);
  url(resizing);
  resizing->add_option("--size", options->size, "Its new size, such as 16GiB.")->type_name("SIZE")->required();
  url(add("drop", "Remove a data set that nobody is attached to, from all its servers.", drop));
  CLI::App* const loading = add("load", "Make a data set of what another store has.", load);
  loading->add_option("FROM", options->other, "A file, or the URL of any store.")->required();
  url(loading);
  CLI::App* const saving = add("save", "Copy a data set to a new store.", save);
  url(saving);
  saving->add_option("TO", options->other, "A file that does not exist yet, or the URL of a store to create.")
      ->required();
  return command;
}

}  // namespace tiermap
