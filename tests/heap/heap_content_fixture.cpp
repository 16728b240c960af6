#include <algorithm>
#include <cstring>
#include <filesystem>

#include "heap/file_copy.hpp"
#include "heap/heap_content.hpp"

namespace tiermap {
namespace {

using Vector = HeapVector<std::uint64_t>;
using Table = HeapUnorderedMap<HeapString, HeapVector<std::uint64_t>>;
using Ordered = HeapMap<std::uint64_t, HeapString>;
struct Other {
  std::uint32_t value;
};

// The places of blocks that have no name, as offsets from data().
constexpr char block_list[] = "block list";
constexpr char stamp_name[] = "stamp";
constexpr std::uint64_t names = 12;
constexpr std::uint64_t most_numbers = 1500;

Vector& places_of(Heap& heap) {
  Vector* const places = heap.find<Vector>(block_list);
  require(places != nullptr, "the list of blocks is gone");
  return *places;
}

template <typename Call>
void require_refused(Call&& call, const std::string& what) {
  try {
    call();
  } catch (const OptionError&) {
    return;
  }
  throw WrongHeap(what + " was not refused");
}

/// The same changes of a heap's vector and of a plain one.
template <typename Numbers>
void fill_numbers(Numbers& numbers, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::uint64_t count = random() % 600;
  for (std::uint64_t index = 0; index < count; ++index) {
    numbers.push_back(random());
  }
  if (seed % 4 == 0 || numbers.size() > most_numbers) {
    numbers.erase(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2));
    numbers.shrink_to_fit();
  }
}

std::string key_text(std::uint64_t draw) {
  return draw % 3 == 0 ? "k" + std::to_string(draw % 40) : "a key that is not short " + std::to_string(draw % 40);
}

template <typename Make, typename Map>
void fill_table(Map& table, std::uint64_t seed, Make&& make_key) {
  std::mt19937_64 random(seed);
  for (std::uint64_t step = random() % 20; step > 0; --step) {
    const std::string key = key_text(random());
    const std::uint64_t inner = random();
    if (inner % 4 == 0) {
      table.erase(make_key(key));
    } else {
      fill_numbers(table[make_key(key)], inner % 1'000'000);
    }
  }
}

template <typename Map>
void fill_ordered(Map& ordered, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::uint64_t step = random() % 60; step > 0; --step) {
    const std::uint64_t key = random() % 200;
    if (random() % 3 == 0) {
      ordered.erase(key);
    } else {
      ordered[key].assign(random() % 90, static_cast<char>('a' + key % 26));
    }
  }
}

/// Not every byte of a block is written and looked at: enough to notice the loss of a sector.
constexpr std::uint64_t stride = 61;

std::byte pattern_byte(std::uint64_t pattern, std::uint64_t index) {
  return static_cast<std::byte>((pattern * (index / 512 + 1) + index) >> 3);
}

}  // namespace

void copy_heap_as_killed(const std::string& path, const std::string& to) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    const std::filesystem::path target = to / std::filesystem::relative(entry.path(), path);
    if (entry.is_directory()) {
      std::filesystem::create_directories(target);
    } else {
      std::filesystem::create_directories(target.parent_path());
      copy_sparse_file(entry.path().string(), target.string());
    }
  }
}

std::string text_of(const HeapChange& change) {
  static const char* const kinds[] = {"construct", "destroy", "fill", "allocate", "free", "free wrongly", "describe"};
  return std::string(kinds[static_cast<std::size_t>(change.kind)]) + " " + std::to_string(change.which) + " " +
         std::to_string(change.seed);
}

HeapChange random_change(std::mt19937_64& random) {
  using Kind = HeapChange::Kind;
  static constexpr Kind kinds[] = {Kind::construct, Kind::construct,    Kind::destroy,  Kind::fill,
                                   Kind::fill,      Kind::fill,         Kind::allocate, Kind::allocate,
                                   Kind::free,      Kind::free_wrongly, Kind::describe};
  return {kinds[random() % std::size(kinds)], random() % 1000, random()};
}

void HeapContent::begin(Heap& heap) {
  heap.construct<Vector>(block_list)();
  heap.construct<std::uint64_t>(stamp_name)(0U);
}

void HeapContent::stamp(Heap& heap) const {
  *heap.find<std::uint64_t>(stamp_name) = number;
}

std::uint64_t HeapContent::stamp_of(Heap& heap) {
  const std::uint64_t* const stamp = heap.find<std::uint64_t>(stamp_name);
  require(stamp != nullptr, "the stamp is gone");
  return *stamp;
}

void HeapContent::change(const HeapChange& change, Heap* heap) {
  const std::string name = "name " + std::to_string(change.which % names);
  switch (change.kind) {
    case HeapChange::Kind::construct:
      return construct(name, change.seed, heap);
    case HeapChange::Kind::destroy:
      return destroy(name, change.seed, heap);
    case HeapChange::Kind::fill:
      return fill(name, change.seed, heap);
    case HeapChange::Kind::allocate:
      return allocate(change.seed, heap);
    case HeapChange::Kind::free:
      return free(change.which, change.seed % 4 == 0, heap);
    case HeapChange::Kind::free_wrongly:
      // 8 bytes behind a smaller one there may be another.
      if (heap != nullptr && !blocks_.empty() && blocks_[change.which % blocks_.size()].bytes > 16) {
        std::byte* const block = heap->data() + places_of(*heap)[change.which % blocks_.size()];
        require_refused([&] { heap->deallocate(block + 8); }, "freeing the inside of a block");
      }
      return;
    case HeapChange::Kind::describe:
      if (const auto found = objects_.find(name); found != objects_.end()) {
        found->second.description = std::to_string(change.seed);
        if (heap != nullptr) {
          heap->describe(name, found->second.description);
        }
      }
      return;
  }
}

void HeapContent::construct(const std::string& name, std::uint64_t seed, Heap* heap) {
  const auto [place, is_new] = objects_.try_emplace(name);
  if (!is_new) {
    if (heap != nullptr) {
      require_refused([&] { heap->construct<Other>(name)(); }, "a second object of a name");
    }
    return;
  }
  Object& object = place->second;
  object.type = static_cast<Type>(seed % 4);
  const std::uint64_t count = 1 + seed / 4 % 700;
  if (object.type == Type::array) {
    object.numbers.assign(count, seed);
  }
  if (heap == nullptr) {
    return;
  }
  const bool or_find = seed % 8 < 4;
  switch (object.type) {
    case Type::array:
      heap->construct<std::uint64_t>(name)[count](seed);
      return;
    case Type::vector:
      or_find ? heap->find_or_construct<Vector>(name)() : heap->construct<Vector>(name)();
      return;
    case Type::table:
      or_find ? heap->find_or_construct<Table>(name)() : heap->construct<Table>(name)();
      return;
    case Type::ordered:
      or_find ? heap->find_or_construct<Ordered>(name)() : heap->construct<Ordered>(name)();
      return;
  }
}

void HeapContent::destroy(const std::string& name, std::uint64_t seed, Heap* heap) {
  const auto found = objects_.find(name);
  if (found == objects_.end()) {
    require(heap == nullptr || !heap->destroy<Vector>(name), "what was not there was destroyed: " + name);
    return;
  }
  if (heap != nullptr && seed % 4 == 0) {
    require_refused([&] { heap->destroy<Other>(name); }, "destroying as another type");
  }
  const Type type = found->second.type;
  objects_.erase(found);
  if (heap != nullptr) {
    const bool destroyed = type == Type::array    ? heap->destroy<std::uint64_t>(name)
                           : type == Type::vector ? heap->destroy<Vector>(name)
                           : type == Type::table  ? heap->destroy<Table>(name)
                                                  : heap->destroy<Ordered>(name);
    require(destroyed, name + " was not there to be destroyed");
  }
}

void HeapContent::fill(const std::string& name, std::uint64_t seed, Heap* heap) {
  const auto found = objects_.find(name);
  if (found == objects_.end()) {
    return;
  }
  Object& object = found->second;
  const auto same = [](const std::string& key) { return key; };
  const auto in_heap = [&](const std::string& key) { return HeapString(key.c_str(), *heap); };
  switch (object.type) {
    case Type::array:
      object.numbers[seed % object.numbers.size()] = seed;
      if (heap != nullptr) {
        heap->find_all<std::uint64_t>(name)[seed % object.numbers.size()] = seed;
      }
      return;
    case Type::vector:
      fill_numbers(object.numbers, seed);
      if (heap != nullptr) {
        fill_numbers(*heap->find<Vector>(name), seed);
      }
      return;
    case Type::table:
      fill_table(object.table, seed, same);
      if (heap != nullptr) {
        fill_table(*heap->find<Table>(name), seed, in_heap);
      }
      return;
    case Type::ordered:
      fill_ordered(object.ordered, seed);
      if (heap != nullptr) {
        fill_ordered(*heap->find<Ordered>(name), seed);
      }
      return;
  }
}

void HeapContent::allocate(std::uint64_t seed, Heap* heap) {
  constexpr std::size_t most_blocks = 60;
  if (blocks_.size() >= most_blocks) {
    return free(seed, false, heap);
  }
  const std::uint64_t bytes = 1 + (seed >> 8) % (seed % 8 == 0 ? 200'000 : seed % 8 < 4 ? 9000 : 300);
  blocks_.push_back({bytes, seed});
  if (heap != nullptr) {
    const std::size_t alignment = std::size_t{1} << (seed % 13);
    auto* const block = static_cast<std::byte*>(heap->allocate(bytes, alignment));
    require(reinterpret_cast<std::uintptr_t>(block) % alignment == 0, "a block is not aligned");
    for (std::uint64_t index = 0; index < bytes; index += stride) {
      block[index] = pattern_byte(seed, index);
    }
    places_of(*heap).push_back(static_cast<std::uint64_t>(block - heap->data()));
  }
}

void HeapContent::free(std::uint64_t which, bool twice, Heap* heap) {
  if (blocks_.empty()) {
    return;
  }
  const std::size_t index = which % blocks_.size();
  blocks_[index] = blocks_.back();
  blocks_.pop_back();
  if (heap != nullptr) {
    Vector& places = places_of(*heap);
    std::byte* const block = heap->data() + places[index];
    heap->deallocate(block);
    if (twice) {
      require_refused([&] { heap->deallocate(block); }, "a second free");
    }
    places[index] = places.back();
    places.pop_back();
  }
}

void HeapContent::require_same_object(Heap& heap, const std::string& name, const Object& object) const {
  bool same = false;
  switch (object.type) {
    case Type::array:
      same = std::ranges::equal(heap.find_all<std::uint64_t>(name), object.numbers);
      break;
    case Type::vector: {
      const Vector* const found = heap.find<Vector>(name);
      same = found != nullptr && std::ranges::equal(*found, object.numbers);
      break;
    }
    case Type::table: {
      const Table* const found = heap.find<Table>(name);
      same = found != nullptr && found->size() == object.table.size() &&
             std::ranges::all_of(*found, [&](const auto& entry) {
               const auto expected = object.table.find(std::string(entry.first.begin(), entry.first.end()));
               return expected != object.table.end() && std::ranges::equal(entry.second, expected->second);
             });
      break;
    }
    case Type::ordered: {
      const Ordered* const found = heap.find<Ordered>(name);
      same = found != nullptr && std::ranges::equal(*found, object.ordered, [](const auto& one, const auto& other) {
               return one.first == other.first && std::ranges::equal(one.second, other.second);
             });
      break;
    }
  }
  require(same, name + " is not what was stored in it");
}

void HeapContent::require_same(Heap& heap) const {
  std::size_t listed = 0;
  for (const HeapObject& object : heap.objects()) {
    if (object.name != block_list && object.name != stamp_name) {
      const auto found = objects_.find(object.name);
      require(found != objects_.end(), object.name + " is there, and should not be");
      require(found->second.description == object.description, object.name + " has another description");
      ++listed;
    }
  }
  require(listed == objects_.size(),
          "objects are gone: there are " + std::to_string(listed) + " of " + std::to_string(objects_.size()));
  for (const auto& [name, object] : objects_) {
    require_same_object(heap, name, object);
  }
  const Vector& places = places_of(heap);
  require(places.size() == blocks_.size(),
          "the list of blocks has " + std::to_string(places.size()) + " of " + std::to_string(blocks_.size()));
  for (std::size_t index = 0; index < blocks_.size(); ++index) {
    const std::byte* const block = heap.data() + places[index];
    for (std::uint64_t byte = 0; byte < blocks_[index].bytes; byte += stride) {
      require(block[byte] == pattern_byte(blocks_[index].pattern, byte),
              "block " + std::to_string(index) + " is wrong at byte " + std::to_string(byte));
    }
  }
}

void HeapContent::require_no_leak(Heap& heap) {
  for (const std::uint64_t place : places_of(heap)) {
    heap.deallocate(heap.data() + place);
  }
  for (const HeapObject& object : heap.objects()) {
    const auto is = [&](const HeapType& type) { return object.size_bytes == type.size_bytes; };
    const std::string& name = object.name;
    static_assert(sizeof(Vector) != sizeof(Table) && sizeof(Table) != sizeof(Ordered) &&
                  sizeof(Vector) != sizeof(Ordered));
    const bool destroyed = is(heap_type_of<std::uint64_t>()) ? heap.destroy<std::uint64_t>(name)
                           : is(heap_type_of<Vector>())      ? heap.destroy<Vector>(name)
                           : is(heap_type_of<Table>())       ? heap.destroy<Table>(name)
                                                             : heap.destroy<Ordered>(name);
    require(destroyed, name + " could not be destroyed");
  }
  const std::uint64_t left = heap.statistics().live_blocks;
  require(left == 0, std::to_string(left) + " blocks were lost");
}

}  // namespace tiermap
