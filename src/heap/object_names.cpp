#include "heap/object_names.hpp"

#include <algorithm>
#include <cerrno>

#include "config/size.hpp"
#include "heap/name_records.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::string in_words(const std::string& mangled, std::uint64_t size_bytes, std::uint64_t alignment) {
  return name_in_source(mangled) + " of " + std::to_string(size_bytes) + " bytes, aligned to " +
         std::to_string(alignment);
}

std::string object_in_words(bool unique, const std::string& name) {
  return unique ? "the unique object of type " + name_in_source(name) : "object " + quote_value(name);
}

}  // namespace

ObjectNames::Key ObjectNames::key_of(const HeapObjectKey& key, const HeapType& type) const {
  if (!key.unique && key.name.empty()) {
    throw OptionError("heap " + heap_ + ": an object cannot be called \"\": choose a name, or unique_object");
  }
  return {key.unique, key.unique ? type.mangled_name : key.name};
}

std::uint64_t ObjectNames::saved_bytes(const Key& key, const Entry& entry) noexcept {
  return name_record_bytes + (key.first ? 0 : key.second.size()) + entry.type.size() + entry.compiler.size() +
         entry.description.size();
}

std::string ObjectNames::display(const Key& key) const {
  return "heap " + heap_ + ": " + object_in_words(key.first, key.second);
}

void ObjectNames::check_room(std::uint64_t more_bytes, std::uint64_t in_place_of) const {
  constexpr std::uint64_t most_text_bytes = 1U << 30U;  // Records have 32 bits for the length of each.
  if (more_bytes > most_text_bytes) {
    throw OptionError("heap " + heap_ + ": a name, type and description of " + std::to_string(more_bytes) +
                      " bytes are too long: choose at most 1 GiB");
  }
  if (more_bytes > most_bytes_ - (bytes_ - in_place_of)) {
    throw HeapFullError("heap " + heap_ + ": its names take " + std::to_string(bytes_ - in_place_of) +
                        " bytes of the " + std::to_string(most_bytes_) + " there are for them, and " +
                        std::to_string(more_bytes) +
                        " more find no room: use fewer names, shorter ones, or make a larger heap");
  }
}

void ObjectNames::check_type(const Key& key, const Entry& entry, const HeapType& type) {
  const bool same_name = entry.type == type.mangled_name;
  if (entry.size_bytes == type.size_bytes && entry.alignment == type.alignment) {
    if (same_name) {
      return;
    }
    if (entry.compiler != type.compiler) {
      std::string warning = display(key) + " was made by " + entry.compiler + " as " + name_in_source(entry.type) +
                            ", and " + type.compiler + " calls it " + name_in_source(type.mangled_name);
      if (std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end()) {
        warnings_.push_back(std::move(warning));
      }
      return;
    }
  }
  throw OptionError(display(key) + " is of type " + in_words(entry.type, entry.size_bytes, entry.alignment) + ", not " +
                    in_words(type.mangled_name, type.size_bytes, type.alignment) + ": ask for the type it has");
}

ObjectNames::Found ObjectNames::find(const HeapObjectKey& key, const HeapType& type) {
  const Key wanted = key_of(key, type);
  const std::lock_guard lock(mutex_);
  const auto place = entries_.find(wanted);
  if (place == entries_.end() || !place->second.complete()) {
    return {};
  }
  check_type(wanted, place->second, type);
  return {place->second.offset, place->second.count};
}

ObjectNames::Found ObjectNames::begin(const HeapObjectKey& key, const HeapType& type, std::uint64_t count, bool or_find,
                                      const std::function<std::uint64_t()>& place) {
  const Key wanted = key_of(key, type);
  if (count == 0 || count > heap_most_bytes / type.size_bytes) {
    throw OptionError(display(wanted) + " cannot be made of " + std::to_string(count) + ": choose a smaller number, " +
                      "1 at least");
  }
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto there = entries_.find(wanted);
    if (there == entries_.end()) {
      break;
    }
    const bool own = there->second.maker == std::this_thread::get_id();
    if (!or_find || own) {
      throw OptionError(display(wanted) + (own ? " is being made by this thread" : " exists already") +
                            ": choose another name, find it, or destroy it first",
                        EEXIST);
    }
    if (there->second.complete()) {
      check_type(wanted, there->second, type);
      return {there->second.offset, there->second.count};
    }
    made_.wait(lock);
  }
  Entry entry{
      0, count, type.size_bytes, type.alignment, type.mangled_name, type.compiler, {}, std::this_thread::get_id()};
  const std::uint64_t bytes = saved_bytes(wanted, entry);
  check_room(bytes);
  const auto made = entries_.emplace(wanted, std::move(entry)).first;
  try {
    made->second.offset = place();
    blocks_.add(made->second.offset);
  } catch (...) {
    entries_.erase(made);
    throw;
  }
  bytes_ += bytes;
  return {};
}

std::uint64_t ObjectNames::end(const HeapObjectKey& key, const HeapType& type, bool made) {
  const std::lock_guard lock(mutex_);
  const auto there = entries_.find(key_of(key, type));
  const std::uint64_t offset = there->second.offset;
  if (made) {
    there->second.maker = {};
    ++changes_;
  } else {
    forget(there);
  }
  made_.notify_all();
  return offset;
}

ObjectNames::Found ObjectNames::take(const HeapObjectKey& key, const HeapType& type) {
  const Key wanted = key_of(key, type);
  const std::lock_guard lock(mutex_);
  const auto there = entries_.find(wanted);
  if (there == entries_.end() || !there->second.complete()) {
    return {};
  }
  check_type(wanted, there->second, type);
  const Found found{there->second.offset, there->second.count};
  forget(there);
  ++changes_;
  return found;
}

void ObjectNames::forget(Entries::iterator place) noexcept {
  bytes_ -= saved_bytes(place->first, place->second);
  blocks_.remove(place->second.offset);
  entries_.erase(place);
}

void ObjectNames::refuse_named(std::uint64_t offset) const {
  const std::lock_guard lock(mutex_);
  const auto there = std::ranges::find(entries_, offset, [](const auto& named) { return named.second.offset; });
  throw OptionError("the block at offset " + std::to_string(offset) + " is that of " +
                    (there != entries_.end() ? object_in_words(there->first.first, there->first.second) : "an object") +
                    ", whose name would stay: free it by destroy()");
}

HeapObject ObjectNames::object_of(const Key& key, const Entry& entry) {
  return {key.first ? "" : key.second,
          key.first,
          name_in_source(entry.type),
          entry.count,
          entry.size_bytes,
          entry.alignment,
          entry.offset,
          entry.description};
}

std::optional<HeapObject> ObjectNames::attributes(const HeapObjectKey& key, const HeapType& type) const {
  const Key wanted = key_of(key, type);
  const std::lock_guard lock(mutex_);
  const auto there = entries_.find(wanted);
  return there != entries_.end() && there->second.complete() ? std::optional(object_of(wanted, there->second))
                                                             : std::nullopt;
}

std::optional<HeapObject> ObjectNames::attributes_at(std::uint64_t offset) const {
  const std::lock_guard lock(mutex_);
  const auto there = std::find_if(entries_.begin(), entries_.end(), [&](const auto& named) {
    const Entry& entry = named.second;
    return entry.complete() && offset >= entry.offset && offset - entry.offset < entry.count * entry.size_bytes;
  });
  return there != entries_.end() ? std::optional(object_of(there->first, there->second)) : std::nullopt;
}

void ObjectNames::describe(const HeapObjectKey& key, const HeapType& type, std::string_view description) {
  const Key wanted = key_of(key, type);
  const std::lock_guard lock(mutex_);
  const auto there = entries_.find(wanted);
  if (there == entries_.end() || !there->second.complete()) {
    throw OptionError(display(wanted) + " is not there to be described: construct it first", ENOENT);
  }
  const std::uint64_t before = there->second.description.size();
  check_room(description.size(), before);
  bytes_ += description.size() - before;
  there->second.description = description;
  ++changes_;
}

std::vector<HeapObject> ObjectNames::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<HeapObject> objects;
  for (const auto& [key, entry] : entries_) {
    if (entry.complete()) {
      objects.push_back(object_of(key, entry));
    }
  }
  return objects;
}

std::vector<std::string> ObjectNames::warnings() const {
  const std::lock_guard lock(mutex_);
  return warnings_;
}

std::uint64_t ObjectNames::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

std::vector<std::byte> ObjectNames::save() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::byte> bytes;
  for (const auto& [key, entry] : entries_) {
    if (!entry.complete()) {
      continue;
    }
    append_name_record({entry.offset, entry.count, entry.size_bytes, entry.alignment, key.first,
                        key.first ? std::string() : key.second, entry.type, entry.compiler, entry.description},
                       bytes);
  }
  return bytes;
}

void ObjectNames::load(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  while (!bytes.empty()) {
    NameRecord record;
    const bool possible = take_name_record(bytes, capacity_bytes_, record);
    Key key{record.unique, record.unique ? record.type : record.name};
    if (!possible || entries_.contains(key)) {
      throw StoreError(EINVAL, "heap " + heap_ + " is damaged: a record of its names area cannot be: restore it from " +
                                   "a snapshot");
    }
    Entry entry{record.offset,
                record.count,
                record.size_bytes,
                record.alignment,
                std::move(record.type),
                std::move(record.compiler),
                std::move(record.description)};
    bytes_ += saved_bytes(key, entry);
    blocks_.add(entry.offset);
    entries_.emplace(std::move(key), std::move(entry));
  }
}

}  // namespace tiermap
