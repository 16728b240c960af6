// Stores for tests by name of their kind, each with content that a formula gives, so that a reference can be made
// without reading the store.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "store/faulty_store.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/options.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

enum class StoreKind : std::uint8_t {
  file_on_disk,    ///< On the disk where the tests run: O_DIRECT where its file system has it.
  file_in_memory,  ///< On tmpfs: no O_DIRECT before Linux 6.6.
  sparse,
  concat,
  memory,
  overlay,   ///< A file, mapped private_copy.
  callback,  ///< Only read() and write(), slow and short now and then.
};
inline constexpr std::size_t store_kind_count = 7;

inline std::string kind_name(StoreKind kind) {
  constexpr const char* names[] = {"disk", "tmpfs", "sparse", "concat", "memory", "overlay", "callback"};
  return names[static_cast<std::size_t>(kind)];
}

/// What word `index` of every store made here holds at first.
inline std::uint64_t first_content(std::uint64_t index) {
  return (index + 1) * 0x9E3779B97F4A7C15ULL;
}

/// A store with `words` words of first_content() (a sparse one starts empty), opened again and again.
class TestStore {
 public:
  TestStore(StoreKind kind, std::uint64_t words, std::uint64_t seed)
      : kind_(kind), words_(words), seed_(seed), directory_(kind == StoreKind::file_on_disk ? "." : "/dev/shm") {
    switch (kind) {
      case StoreKind::file_on_disk:
      case StoreKind::file_in_memory:
      case StoreKind::overlay:
        url_ = "file://" + directory_.encoded() + "/data";
        fill_file(directory_ / "data", 0, words);
        break;
      case StoreKind::sparse:
        // Segments smaller than the larger pages: a page then lies in several files.
        url_ = "sparse://" + directory_.encoded() + "/data?segment=256KiB&capacity=128MiB";
        open_store(url_, OpenMode::create, words * 8)->flush();
        break;
      case StoreKind::concat: {
        const std::uint64_t cut = words / 3 / 512 * 512;
        fill_file(directory_ / "one", 0, cut);
        fill_file(directory_ / "two", cut, words);
        url_ = "concat://" + directory_.encoded() + "/one," + directory_.encoded() + "/two";
        break;
      }
      case StoreKind::memory:
      case StoreKind::callback:
        memory_ = open_store("memory:" + std::to_string(words * 8), OpenMode::open_or_create);
        for (std::uint64_t word = 0; word < words; ++word) {
          const std::uint64_t value = first_content(word);
          memory_->write(&value, sizeof value, word * 8);
        }
        break;
    }
  }

  StoreKind kind() const { return kind_; }
  Sharing sharing() const { return kind_ == StoreKind::overlay ? Sharing::private_copy : Sharing::shared; }
  /// Whether it can be mapped longer than it is.
  bool growable() const {
    return kind_ != StoreKind::concat && kind_ != StoreKind::memory && kind_ != StoreKind::callback;
  }
  std::uint64_t initial(std::uint64_t word) const {
    return kind_ == StoreKind::sparse || word >= words_ ? 0 : first_content(word);
  }
  /// Opens it, as a program would that starts anew.
  std::shared_ptr<Store> open() {
    if (kind_ == StoreKind::memory) {
      return memory_;
    }
    if (kind_ == StoreKind::callback) {
      callback_ = std::make_shared<FaultyStore>(memory_);
      callback_->on_read([random = std::mt19937_64(seed_)](const FaultyStore::Call& call) mutable {
        return disturb(random, call.bytes);
      });
      callback_->on_write([random = std::mt19937_64(seed_ + 1)](const FaultyStore::Call& call) mutable {
        return disturb(random, call.bytes);
      });
      return callback_;
    }
    return open_store(url_, kind_ == StoreKind::overlay ? OpenMode::read_only : OpenMode::read_write);
  }
  /// Of the callback kind: how often two calls met that never may.
  std::uint64_t overlap_violations() const { return callback_ == nullptr ? 0 : callback_->overlap_violations(); }

 private:
  static FaultyStore::Fault disturb(std::mt19937_64& random, std::uint64_t bytes) {
    switch (random() % 64) {
      case 0:
        return FaultyStore::delay(std::chrono::milliseconds(1));
      case 1:
        return FaultyStore::cut(1 + random() % bytes);
      default:
        return FaultyStore::pass();
    }
  }

  static void fill_file(const std::string& path, std::uint64_t from, std::uint64_t to) {
    std::vector<std::uint64_t> content;
    for (std::uint64_t word = from; word < to; ++word) {
      content.push_back(first_content(word));
    }
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size() * 8));
  }

  const StoreKind kind_;
  const std::uint64_t words_;
  const std::uint64_t seed_;
  TemporaryDirectory directory_;
  std::string url_;
  std::shared_ptr<Store> memory_;
  std::shared_ptr<FaultyStore> callback_;
};

}  // namespace tiermap
