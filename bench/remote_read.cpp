// Reads of a data set on a memory server: blocks at random, or one after the other, so many at once. By calls, which
// one thread has on their way, or through the store, which has a thread for each.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cluster/remote/remote_data_set.hpp"
#include "cluster/remote/remote_url.hpp"
#include "config/size.hpp"
#include "measure.hpp"

namespace tiermap::bench {
namespace {

struct RemoteArguments {
  std::string url;
  std::string block = "4KiB";
  unsigned depth = 1;
  double seconds = 3;
  bool sequential = false;
  bool through_store = false;
  bool fill = false;
};

/// Offsets of blocks, by whoever asks next.
class Offsets {
 public:
  Offsets(std::uint64_t bytes, std::uint64_t block, bool sequential)
      : blocks_(bytes / block), block_(block), sequential_(sequential) {}
  std::uint64_t next() {
    const std::uint64_t number = number_.fetch_add(1);
    return (sequential_ ? number : word_at(number) >> 16U) % blocks_ * block_;
  }

 private:
  const std::uint64_t blocks_;
  const std::uint64_t block_;
  const bool sequential_;
  std::atomic<std::uint64_t> number_{0};
};

std::uint64_t read_by_calls(const RemoteArguments& arguments, std::uint64_t block, double until) {
  const RemoteTarget target = parse_remote_url(parse_store_url(arguments.url));
  Wire wire{WireOptions{.family = common_family(target.servers)}};
  RemoteDataSet set(std::make_shared<MemoryClient>(wire, target.servers[0], target.login), target.name, false);
  Offsets offsets(set.facts().bytes, block, arguments.sequential);
  std::vector<std::byte> page(block);
  std::deque<WireCall> calls;
  std::uint64_t done = 0;
  while (now_seconds() < until) {
    while (calls.size() < arguments.depth) {
      calls.push_back(set.start_read(offsets.next(), block));
    }
    const std::span<const std::byte> got = calls.front().wait().body.bytes();
    if (got.size() != block) {
      throw StoreError(EIO, "a read failed");
    }
    std::memcpy(page.data(), got.data(), block);
    calls.pop_front();
    ++done;
  }
  return done;
}

std::uint64_t read_through_store(const RemoteArguments& arguments, std::uint64_t block, double until) {
  const std::unique_ptr<Store> store = open_store(arguments.url, OpenMode::read_only);
  Offsets offsets(store->size_bytes(), block, arguments.sequential);
  std::atomic<std::uint64_t> done{0};
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (unsigned index = 0; index < arguments.depth; ++index) {
    threads.emplace_back([&] {
      std::vector<std::byte> page(block);
      while (now_seconds() < until && !failed) {
        failed = failed || store->read(page.data(), block, offsets.next()) != static_cast<std::int64_t>(block);
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (failed) {
    throw StoreError(EIO, "a read failed");
  }
  return done;
}

/// Other bytes in every page.
void fill(const RemoteArguments& arguments) {
  const std::unique_ptr<Store> store = open_store(arguments.url, OpenMode::read_write);
  std::vector<std::uint64_t> words((1 << 20) / sizeof(std::uint64_t));
  std::uint64_t number = 0;
  for (std::uint64_t offset = 0; offset < store->size_bytes(); offset += 1 << 20) {
    std::ranges::generate(words, [&] { return word_at(number++); });
    const std::uint64_t bytes = std::min<std::uint64_t>(1 << 20, store->size_bytes() - offset);
    if (store->write(words.data(), bytes, offset) != static_cast<std::int64_t>(bytes)) {
      throw StoreError(EIO, "a write failed");
    }
  }
}

int run(int argc, char** argv) {
  CLI::App app("Reads of a data set on a memory server");
  RemoteArguments arguments;
  app.add_option("--url", arguments.url, "remote://HOST:PORT/NAME")->required();
  app.add_option("--block", arguments.block, "Bytes of one read");
  app.add_option("--depth", arguments.depth, "Reads at once")->check(CLI::Range(1, 1024));
  app.add_option("--seconds", arguments.seconds, "How long to measure")->check(CLI::Range(0.1, 3600.0));
  app.add_flag("--sequential", arguments.sequential, "One block after the other, not at random");
  app.add_flag("--store", arguments.through_store, "Through the store, a thread for each read at once");
  app.add_flag("--fill", arguments.fill, "Fill the data set, and read nothing");
  CLI11_PARSE(app, argc, argv);
  try {
    if (arguments.fill) {
      fill(arguments);
      return 0;
    }
    const std::uint64_t block = parse_size(arguments.block, "block");
    const double started = now_seconds();
    const double cpu_started = cpu_seconds();
    const std::uint64_t done =
        (arguments.through_store ? read_through_store : read_by_calls)(arguments, block, started + arguments.seconds);
    const double seconds = now_seconds() - started;
    const nlohmann::json report = {{"program", "remote-read"},
                                   {"block_bytes", block},
                                   {"depth", arguments.depth},
                                   {"sequential", arguments.sequential},
                                   {"through_store", arguments.through_store},
                                   {"operations", done},
                                   {"operations_per_second", static_cast<double>(done) / seconds},
                                   {"bytes_per_second", static_cast<double>(done * block) / seconds},
                                   {"cpu_seconds", cpu_seconds() - cpu_started}};
    std::cout << report.dump() << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "remote-read: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace
}  // namespace tiermap::bench

int main(int argc, char** argv) {
  return tiermap::bench::run(argc, argv);
}
