#include "cluster/server/catalog.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "cluster/server/opened_files.hpp"
#include "cluster/wire/proof.hpp"
#include "config/size.hpp"
#include "store/file_open.hpp"
#include "store/file_store.hpp"
#include "store/memory_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::uint64_t draw_identity() {
  const WireNonce nonce = draw_nonce();
  std::uint64_t identity = 0;
  std::memcpy(&identity, nonce.data(), sizeof(identity));
  return identity;
}

bool among(const std::vector<std::string>& names, const std::string& user) {
  return std::ranges::any_of(names, [&](const std::string& name) { return name == "*" || name == user; });
}

/// Exact: "64MiB", or "66114912 bytes".
std::string with_unit(std::uint64_t bytes) {
  return format_size(bytes) + (bytes % kibi == 0 && bytes != 0 ? "" : " bytes");
}

/// Each would take what the other writes for damage, and what a tier of one has is not seen by the other.
[[noreturn]] void refuse_one_file(const ServedDataSet& one, const ServedDataSet& other) {
  throw OptionError("data sets " + quote_value(one.name) + " (" + one.store + ") and " + quote_value(other.name) +
                    " (" + other.store +
                    ") are on one file: leave one of them out, give it another file, or make both read_only");
}

[[noreturn]] void refuse(int error_number, const std::string& name, const std::string& why) {
  throw CatalogRefusal{-error_number, "data set " + quote_value(name) + " " + why};
}

}  // namespace

std::string DataSet::damage() const {
  const std::uint64_t block = checked == nullptr ? 0 : checked->last_damaged();
  return "data set " + quote_value(name) + " in " + place + ": block " + std::to_string(block) + " (bytes " +
         std::to_string(block * checked_block_bytes) + " to " + std::to_string((block + 1) * checked_block_bytes - 1) +
         " here) is not what was written: look after the device, and load the data set anew";
}

std::uint64_t DataSet::read_nanoseconds() const noexcept {
  constexpr std::uint64_t samples = 16;
  const std::uint64_t bytes = store->size_bytes();
  double longest = 0;
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    longest = std::max(longest, store->read_microseconds(bytes / samples * sample, read_estimate_bytes));
  }
  constexpr double most = 1e6;  // A second.
  return longest <= 0 ? 0 : static_cast<std::uint64_t>(std::min(longest, most) * 1000) + 1;
}

int DataSet::take_scores(std::span<const std::byte> body, const void* from) {
  std::vector<ScoredRange> ranges;
  if (const int result = decode_scores(body, store->size_bytes(), ranges); result != 0) {
    return result;
  }
  // No other client has this address meanwhile, and an address leaves sixteen bits free.
  const std::uint64_t client = reinterpret_cast<std::uintptr_t>(from) << 16U;
  for (const ScoredRange& range : ranges) {
    store->score(range.offset, range.bytes, range.score / double{UINT16_MAX}, client | range.sharer);
  }
  return 0;
}

Attachment::~Attachment() {
  catalog_.release(*set_, writing_);
  set_.reset();
  if (then_) {
    then_();
  }
}

Catalog::Catalog(const ServerOptions& options) : options_(options), memory_(options.memory_bytes) {
  memory_.count_taken([this] { return memory_used_.load(); });
  const std::string& folder = options.directory;
  if (!folder.empty() && (!std::filesystem::is_directory(folder) || ::access(folder.c_str(), W_OK | X_OK) != 0)) {
    throw OptionError("directory " + quote_value(folder) +
                      " cannot have data sets: name a folder that is there, and may be written");
  }
  std::map<FileIdentity, const ServedDataSet*> files;
  for (const ServedDataSet& served : options.data_sets) {
    if (sets_.contains(served.name)) {
      throw OptionError("data set " + quote_value(served.name) + " is named twice: choose another name for one");
    }
    const OpenedFiles opened;
    open(served);
    for (const FileIdentity& file : opened.since()) {
      const ServedDataSet& other = *files.try_emplace(file, &served).first->second;
      if (&other != &served && !(served.read_only && other.read_only)) {
        refuse_one_file(other, served);
      }
    }
  }
}

void Catalog::open(const ServedDataSet& served) {
  const OpenMode mode = served.read_only    ? OpenMode::read_only
                        : served.bytes != 0 ? OpenMode::open_or_create
                                            : OpenMode::read_write;
  auto set = std::make_shared<DataSet>();
  set->name = served.name;
  set->place = served.store;
  set->rights = served.rights;
  set->identity = draw_identity();
  try {
    set->store = served.opened != nullptr ? served.opened : open_store(served.store, mode, served.bytes);
    if (served.tiers.has_value()) {
      set->store = make_tiered_store(set->store, *served.tiers);
    }
  } catch (const StoreError& error) {
    throw StoreError(error.code().value(), "data set " + quote_value(served.name) + ": " + error.what());
  }
  // What is written in a format may be rounded, or packed, and be read as something else.
  if (!set->store->writable() || !set->store->element_layout().has_value()) {
    set->check(CheckedStore::Before::unknown);
  }
  set->whole_bytes = set->store->size_bytes();
  sets_.emplace(served.name, std::move(set));
}

bool Catalog::administers(const std::string& user) const {
  if (options_.users.empty()) {
    return true;
  }
  const auto found = options_.users.find(user);
  return found != options_.users.end() && found->second.administrator;
}

bool Catalog::may(const DataSet& set, const std::string& user, bool writing) const {
  return administers(user) || set.rights.owner == user || among(set.rights.writers, user) ||
         (!writing && among(set.rights.readers, user));
}

/// Who may not even read it is told what he would be told if there were none.
std::shared_ptr<DataSet> Catalog::find(const std::string& user, const std::string& name) const {
  const auto found = sets_.find(name);
  if (found == sets_.end() || !may(*found->second, user, false)) {
    refuse(ENOENT, name,
           "is not here, or not for " + (user.empty() ? "you" : quote_value(user)) +
               ": see what `tiermap serve list` shows, or create it");
  }
  return found->second;
}

std::vector<DataSetLine> Catalog::list(const std::string& user, const std::string& name) const {
  std::vector<DataSetLine> lines;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, set] : sets_) {
    if (may(*set, user, false) && (name.empty() || name == key)) {
      lines.push_back({key, set->store->size_bytes(), set->rights.owner, set->place, set->readers, set->writers,
                       set->layout.text(), set->whole_bytes, set->checked == nullptr ? 0 : set->checked->damaged(),
                       set->checked == nullptr ? 0 : set->checked->mended()});
    }
  }
  return lines;
}

std::uint64_t Catalog::room(const std::string& place) const {
  if (place == "memory") {
    return options_.memory_bytes - std::min(memory_used_.load(), options_.memory_bytes);
  }
  return options_.directory_bytes - std::min(directory_used_.load(), options_.directory_bytes);
}

void Catalog::choose_place(const CreateForm& form, std::uint64_t bytes, std::string& place) const {
  if (place.empty()) {
    place = options_.memory_bytes != 0 || options_.directory.empty() ? "memory" : "directory";
  }
  if (place != "memory" && place != "directory") {
    refuse(EINVAL, form.name, "cannot be in " + quote_value(place) + ": choose memory or directory");
  }
  if (place == "directory" && options_.directory.empty()) {
    refuse(EINVAL, form.name, "cannot be in a directory: this server's configuration names none");
  }
  if (bytes > room(place)) {
    refuse(ENOSPC, form.name,
           "of " + with_unit(bytes) + " does not fit: " + with_unit(room(place)) + " are left in " + place +
               ": drop others, or give the server more");
  }
}

std::shared_ptr<Store> Catalog::make_store(const CreateForm& form, std::uint64_t bytes,
                                           const std::string& place) const {
  try {
    if (place == "memory") {
      return std::make_shared<MemoryStore>(bytes);
    }
    // Gone with the server, whatever becomes of it.
    const std::string path = options_.directory + "/tiermap-" + std::to_string(::getpid()) + "-" + form.name;
    std::shared_ptr<Store> store = FileStore::open(path, OpenMode::create, bytes, FileOptions());
    ::unlink(path.c_str());
    return options_.tiers.has_value() ? make_tiered_store(std::move(store), *options_.tiers) : store;
  } catch (const Error& error) {
    throw CatalogRefusal{-error.code().value(), error.what()};
  }
}

void Catalog::create(const std::string& user, const CreateForm& form, std::uint64_t bytes) {
  add(std::make_shared<DataSet>(), user, form, bytes);
}

void Catalog::create_temporary(const std::string& user, const CreateForm& form, std::uint64_t bytes,
                               std::weak_ptr<const void> maker) {
  auto set = std::make_shared<DataSet>();
  set->temporary = true;
  set->maker = std::move(maker);
  add(std::move(set), user, form, bytes);
}

void Catalog::keep(DataSet& set) {
  const std::lock_guard lock(mutex_);
  set.temporary = false;
}

bool Catalog::is_temporary(const DataSet& set) const {
  const std::lock_guard lock(mutex_);
  return set.temporary;
}

void Catalog::drop_abandoned() {
  std::vector<std::shared_ptr<DataSet>> abandoned;  // Destroyed without the lock, as what is dropped.
  const std::lock_guard lock(mutex_);
  abandoned = take_abandoned();
}

/// A name that is written wrong would be found out by whoever may not read.
void Catalog::check_users(const CreateForm& form, const std::string& option,
                          const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (name != "*" && !options_.users.contains(name)) {
      refuse(EINVAL, form.name,
             "cannot have " + quote_value(name) + " among its " + option +
                 (options_.users.empty()
                      ? ": this server has no users, and everybody may do everything: leave " + option + " out"
                      : ", who is no user of this server: name its users, or *"));
    }
  }
}

void Catalog::add(std::shared_ptr<DataSet> set, const std::string& user, const CreateForm& form, std::uint64_t bytes) {
  if (!is_plain_name(form.name)) {
    refuse(EINVAL, form.name, "cannot be called that: write up to 64 letters, digits, '_', '-' and '.'");
  }
  if (bytes == 0) {
    refuse(EINVAL, form.name, "cannot be of 0 bytes: give it a size");
  }
  check_users(form, "readers", form.readers);
  check_users(form, "writers", form.writers);
  set->name = form.name;
  set->place = form.place;
  set->rights = {user, form.readers, form.writers};
  set->layout = form.layout;
  set->identity = form.identity;
  set->whole_bytes = form.whole_bytes;
  set->made = true;
  set->counted_bytes = bytes;
  std::vector<std::shared_ptr<DataSet>> abandoned;  // Destroyed without the lock, as what is dropped.
  std::unique_lock lock(mutex_);
  abandoned = take_abandoned();
  if (sets_.contains(form.name) || being_made_.contains(form.name)) {
    refuse(EEXIST, form.name, "is there already: choose another name, or drop it");
  }
  choose_place(form, bytes, set->place);
  used(set->place) += bytes;
  being_made_.insert(form.name);
  lock.unlock();
  // Which may take a while, as where a tier is another server's: others attach theirs meanwhile.
  try {
    set->store = make_store(form, bytes, set->place);
    set->in_memory = set->place == "memory";
    if (!set->in_memory) {  // To verify what is plain DRAM takes a quarter of the speed of large reads.
      set->check(CheckedStore::Before::zeros);
    }
  } catch (...) {
    lock.lock();
    used(set->place) -= bytes;
    being_made_.erase(form.name);
    throw;
  }
  lock.lock();
  being_made_.erase(form.name);
  sets_.emplace(form.name, std::move(set));
}

void Catalog::drop(const std::string& user, const std::string& name) {
  std::shared_ptr<DataSet> dropped;  // Destroyed without the lock: that may take a while.
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<DataSet> set = find(user, name);
  if (!set->made) {
    refuse(EPERM, name, "is in the server's configuration: take it out there");
  }
  if (!administers(user) && set->rights.owner != user) {
    refuse(EACCES, name, "belongs to " + quote_value(set->rights.owner) + ": ask him, or an administrator");
  }
  if (set->readers + set->writers != 0) {
    refuse(EBUSY, name,
           "is in use by " + std::to_string(set->readers + set->writers) + ": drop it when they have ended");
  }
  dropped = take_out(name);
}

/// It is there.
std::shared_ptr<DataSet> Catalog::take_out(const std::string& name) noexcept {
  const auto found = sets_.find(name);
  std::shared_ptr<DataSet> set = std::move(found->second);
  used(set->place) -= set->counted_bytes;
  sets_.erase(found);
  return set;
}

/// Whose maker died before he had attached them.
std::vector<std::shared_ptr<DataSet>> Catalog::take_abandoned() {
  std::vector<std::string> names;
  for (const auto& [name, set] : sets_) {
    if (set->temporary && set->readers + set->writers == 0 && set->maker.expired()) {
      names.push_back(name);
    }
  }
  std::vector<std::shared_ptr<DataSet>> abandoned;
  for (const std::string& name : names) {
    abandoned.push_back(take_out(name));
  }
  return abandoned;
}

std::shared_ptr<Attachment> Catalog::attach(const std::string& user, const std::string& peer, const std::string& name,
                                            bool writing, const std::shared_ptr<const void>& client) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<DataSet> set = find(user, name);
  if (writing && !may(*set, user, true)) {
    refuse(EACCES, name, "may only be read by " + quote_value(user) + ": open it read-only");
  }
  if (writing && !set->store->writable()) {
    refuse(EROFS, name, "is read-only on its server: open it read-only");
  }
  if (set->writers != 0) {
    refuse(EBUSY, name, "is being written by " + set->writer + ": wait until that ends");
  }
  if (writing && set->readers != 0) {
    refuse(EBUSY, name,
           "is being read by " + std::to_string(set->readers) + (set->readers == 1 ? " client" : " clients") +
               ": one that writes must be alone");
  }
  if (set->temporary && (client == nullptr || set->maker.lock() != client)) {
    refuse(EBUSY, name, "is being made by another client: wait until that is done");
  }
  auto attachment = std::make_shared<Attachment>(*this, set, writing);
  ++(writing ? set->writers : set->readers);
  if (writing) {
    set->writer = (user.empty() ? "" : user + " at ") + peer;
  }
  return attachment;
}

void Catalog::release(DataSet& set, bool writing) noexcept {
  const std::lock_guard lock(mutex_);
  --(writing ? set.writers : set.readers);
  if (set.temporary && set.readers + set.writers == 0) {
    take_out(set.name);  // Whoever lets go of it has it still, and destroys it after this.
  }
}

DataSetFacts Catalog::facts(const DataSet& set) const {
  return {
      set.identity,         set.version.load(), set.store->size_bytes(), set.whole_bytes.load(), set.read_nanoseconds(),
      set.announced.load(), set.layout};
}

/// To give back many gigabytes takes seconds, in which others attach theirs: the lock is not held meanwhile.
int Catalog::resize(DataSet& set, std::uint64_t bytes, std::uint64_t whole_bytes) {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = set.counted_bytes;  // Only one at a time resizes a data set.
  const std::uint64_t more = set.made && bytes > before ? bytes - before : 0;
  if (more > room(set.place)) {
    return -ENOSPC;
  }
  count(set, before + more);
  lock.unlock();
  int result = 0;
  try {
    result = set.store->resize(bytes);
  } catch (...) {
    lock.lock();
    count(set, before);
    throw;
  }
  lock.lock();
  if (result == 0) {
    set.whole_bytes = whole_bytes;
  }
  count(set, result == 0 ? bytes : before);
  return result;
}

/// What it takes of its place's room.
void Catalog::count(DataSet& set, std::uint64_t bytes) noexcept {
  if (set.made) {
    used(set.place) += bytes - set.counted_bytes;
    set.counted_bytes = bytes;
  }
}

std::vector<std::string> Catalog::settle() {
  std::vector<std::string> failed;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, set] : sets_) {
    if (set->made || !set->store->writable()) {
      continue;  // It ends with the server, or is as it was.
    }
    int result = set->store->settle();
    result = result == 0 ? set->store->flush() : result;
    if (result != 0) {
      failed.push_back("data set " + quote_value(name) + " could not be written to " + set->place + ": " +
                       error_text(-result));
    }
  }
  return failed;
}

std::size_t Catalog::size() const {
  const std::lock_guard lock(mutex_);
  return sets_.size();
}

}  // namespace tiermap
