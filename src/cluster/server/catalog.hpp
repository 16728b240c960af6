// The data sets of a memory server: what there is, whose it is, and who is attached to it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/memory_protocol.hpp"
#include "cluster/server/checked_store.hpp"
#include "cluster/server/server_options.hpp"
#include "platform/memory_promise.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// What a client may be told: a negative errno value and a line.
struct CatalogRefusal {
  int status;
  std::string text;
};

struct DataSet {
  void check(CheckedStore::Before before) { store = checked = std::make_shared<CheckedStore>(store, before); }
  /// One line about the damage that was found last.
  std::string damage() const;
  /// What it takes to read 64 KiB from the slowest of some of its places; 0 where all are the same, in no tiers: then
  /// scores do nothing.
  std::uint64_t read_nanoseconds() const noexcept;
  /// By who writes, who is one at a time.
  void announce(std::uint64_t one) noexcept { announced = std::max(announced.load(), one); }
  /// Says to its tiers what `from`, a client, says in the body of a message. Returns 0 or a negative errno value.
  int take_scores(std::span<const std::byte> body, const void* from);

  std::string name;
  std::string place;  ///< "memory", "directory", or the URL of a store of the configuration.
  DataSetRights rights;
  DataSetLayout layout;
  std::uint64_t identity = 0;
  std::atomic<std::uint64_t> version{0};
  std::atomic<std::uint64_t> announced{0};  ///< The latest that anybody who writes has named.
  std::atomic<std::uint64_t> whole_bytes{0};
  std::shared_ptr<Store> store;
  /// The same, where blocks are checked; null for what is in plain DRAM, or is written in a format of its own.
  std::shared_ptr<CheckedStore> checked;
  bool in_memory = false;
  bool temporary = false;           ///< Dropped when nobody is attached any more, and not before its maker was.
  std::weak_ptr<const void> maker;  ///< Of what is temporary: expires with his connection.
  bool made = false;                ///< By a client, and not named in the configuration.
  std::uint64_t counted_bytes = 0;  ///< Of the place's room. Guarded by the catalog, as what follows.
  std::uint64_t readers = 0;
  std::uint64_t writers = 0;
  std::string writer;  ///< Who, for messages.
};

class Catalog;

/// A client's hold on a data set: it ends with the last who has it, which may be a read that is still under way.
class Attachment {
 public:
  Attachment(Catalog& catalog, std::shared_ptr<DataSet> set, bool writing) noexcept
      : catalog_(catalog), set_(std::move(set)), writing_(writing) {}
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  DataSet& set() const noexcept { return *set_; }
  bool writing() const noexcept { return writing_; }
  /// What is done once it has ended, and what it held alone is gone.
  void at_end(std::function<void()> then) { then_ = std::move(then); }

 private:
  Catalog& catalog_;
  std::shared_ptr<DataSet> set_;
  const bool writing_;
  std::function<void()> then_;
};

/// Thread-safe. Members throw CatalogRefusal.
class Catalog {
 public:
  /// Opens the data sets of the configuration. Throws StoreError or OptionError, with the data set's name.
  explicit Catalog(const ServerOptions& options);

  std::vector<DataSetLine> list(const std::string& user, const std::string& name) const;
  void create(const std::string& user, const CreateForm& form, std::uint64_t bytes);
  /// Gone with the last attachment, or with `maker` where he never attached it.
  void create_temporary(const std::string& user, const CreateForm& form, std::uint64_t bytes,
                        std::weak_ptr<const void> maker);
  /// What was made by create_temporary() is as by create().
  void keep(DataSet& set);
  bool is_temporary(const DataSet& set) const;
  /// To be called when a maker has gone: what he never attached is dropped.
  void drop_abandoned();
  void drop(const std::string& user, const std::string& name);
  /// What is temporary is for `client` alone, who made it: to others it is zeros that are to become something.
  std::shared_ptr<Attachment> attach(const std::string& user, const std::string& peer, const std::string& name,
                                     bool writing, const std::shared_ptr<const void>& client = nullptr);
  DataSetFacts facts(const DataSet& set) const;
  /// Returns 0 or a negative errno value.
  int resize(DataSet& set, std::uint64_t bytes, std::uint64_t whole_bytes);
  /// Everything to where it is to last. Returns a line for each data set that could not be.
  std::vector<std::string> settle();
  std::size_t size() const;

 private:
  friend class Attachment;
  void release(DataSet& set, bool writing) noexcept;
  bool may(const DataSet& set, const std::string& user, bool writing) const;
  bool administers(const std::string& user) const;
  std::shared_ptr<DataSet> find(const std::string& user, const std::string& name) const;
  void open(const ServedDataSet& served);
  void check_users(const CreateForm& form, const std::string& option, const std::vector<std::string>& names) const;
  void add(std::shared_ptr<DataSet> set, const std::string& user, const CreateForm& form, std::uint64_t bytes);
  void count(DataSet& set, std::uint64_t bytes) noexcept;
  std::shared_ptr<DataSet> take_out(const std::string& name) noexcept;
  std::vector<std::shared_ptr<DataSet>> take_abandoned();
  void choose_place(const CreateForm& form, std::uint64_t bytes, std::string& place) const;
  std::shared_ptr<Store> make_store(const CreateForm& form, std::uint64_t bytes, const std::string& place) const;
  std::uint64_t room(const std::string& place) const;
  std::atomic<std::uint64_t>& used(const std::string& place) {
    return place == "memory" ? memory_used_ : directory_used_;
  }

  const ServerOptions& options_;
  mutable std::mutex mutex_;  ///< Guards what follows.
  std::map<std::string, std::shared_ptr<DataSet>> sets_;
  std::set<std::string> being_made_;  ///< Their room is taken already.
  /// Read without the mutex by who counts memory.
  std::atomic<std::uint64_t> memory_used_{0};
  std::atomic<std::uint64_t> directory_used_{0};
  MemoryPromise memory_;  ///< Tiers of data sets have what is left.
};

}  // namespace tiermap
