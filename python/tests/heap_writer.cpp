// heap_writer MODE PATH: makes the heaps that test_heap.py reads.
//
//   all       one object of each kind; closed
//   numbers   a vector of 8 MiB in many pages; closed
//   sparse    the same in files of a sparse store
//   weather   what docs/python.md reads
//   crash     a checkpoint, changes after it, and an end without close(); "fresh" is the value that must not be seen
//   direct    the same without checkpoints
//   append    adds to "numbers" of an existing heap; exit status 3 if it is in use
//   hold      has the heap open for writing until standard input ends
#include <unistd.h>

#include <array>
#include <cerrno>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <limits>
#include <string>
#include <tiermap/error.hpp>
#include <tiermap/heap.hpp>
#include <tiermap/heap_containers.hpp>
#include <tiermap/heap_fallback_allocator.hpp>
#include <utility>
#include <vector>

using tiermap::Heap;
using tiermap::HeapAllocator;
using tiermap::HeapBacking;
using tiermap::HeapOptions;
using tiermap::HeapString;
using tiermap::HeapVector;

struct Record {
  std::uint64_t minute;
  double degrees;
  std::int16_t station;
};

namespace {

struct alignas(64) Line {
  std::array<float, 16> values;
};

enum class Colour : std::uint8_t { red = 3 };

template <typename T>
void put_number(Heap& heap, const char* type) {
  const std::string name = type;
  heap.construct<T>(name)(std::numeric_limits<T>::max());
  T* const several = heap.construct<T>(name + "[3]")[3](std::numeric_limits<T>::lowest());
  several[1] = T(1);
  auto& elements = *heap.construct<HeapVector<T>>("vector of " + name)();
  auto& standard = *heap.construct<std::vector<T, HeapAllocator<T>>>("standard vector of " + name)();
  elements.reserve(7);
  for (int i = 0; i < 5; ++i) {
    elements.push_back(T(i % 3));
    standard.push_back(T(i % 3));
  }
}

void put_numbers(Heap& heap) {
  put_number<char>(heap, "char");
  put_number<signed char>(heap, "int8");
  put_number<unsigned char>(heap, "uint8");
  put_number<short>(heap, "int16");
  put_number<unsigned short>(heap, "uint16");
  put_number<int>(heap, "int32");
  put_number<unsigned>(heap, "uint32");
  put_number<long>(heap, "int64");
  put_number<unsigned long>(heap, "uint64");
  put_number<long long>(heap, "long long");
  put_number<unsigned long long>(heap, "unsigned long long");
  put_number<char16_t>(heap, "char16");
  put_number<float>(heap, "float32");
  put_number<double>(heap, "float64");
  put_number<long double>(heap, "long double");
  heap.construct<bool>("bool")(true);
  heap.construct<HeapVector<bool>>("vector of bool")()->assign({true, false, true});
  heap.construct<std::complex<double>>("complex")(1.5, -2.5);
  heap.construct<HeapVector<std::complex<float>>>("vector of complex")()->assign({{1, 2}, {3, 4}});
}

void put_arrays(Heap& heap) {
  heap.construct<std::array<double, 3>>("array")(std::array<double, 3>{1, 2, 3});
  heap.construct<std::array<std::array<std::int16_t, 4>, 2>>("arrays[5]")[5]()[4][1][3] = 77;
  auto& points = *heap.construct<HeapVector<std::array<float, 2>>>("vector of array")();
  auto& pairs = *heap.construct<HeapVector<std::pair<std::uint32_t, double>>>("vector of pair")();
  auto& records = *heap.construct<HeapVector<Record>>("vector of record")();
  auto& standard = *heap.construct<std::vector<Record, HeapAllocator<Record>>>("standard vector of record")();
  for (int i = 0; i < 100; ++i) {
    points.push_back({float(i), float(-i)});
    pairs.push_back({unsigned(i), i / 2.0});
    records.push_back({std::uint64_t(i), i / 4.0, std::int16_t(-i)});
    standard.push_back(records.back());
  }
  heap.construct<Record>("record")(Record{1, 2.5, 3});
  Record* const several = heap.construct<Record>("record[4]")[4]();
  several[3] = {9, 9.5, -9};
  heap.construct<std::array<Record, 2>>("array of record")(std::array<Record, 2>{Record{5, 5, 5}, Record{6, 6, 6}});
  heap.construct<HeapVector<Line>>("vector of line")()->resize(3);
  heap.construct<Colour>("colour")(Colour::red);
  using Either = boost::container::vector<double, tiermap::HeapFallbackAllocator<double>>;
  heap.construct<Either>("fallback")()->assign({1, 2});
  // Not told of the heap: its elements are gone with this process.
  heap.construct<std::array<Either, 1>>("lost")()->front().assign({1, 2});
  heap.construct<HeapVector<double>>("empty")();
  heap.construct<std::vector<double, HeapAllocator<double>>>("standard empty")();
  auto& cleared = *heap.construct<HeapVector<double>>("cleared")();
  cleared.resize(1000);
  cleared.clear();
  auto* const vectors = heap.construct<HeapVector<int>>("vectors[3]")[3]();
  vectors[1].assign({1, 2, 3});
  vectors[2].assign({4});
  heap.construct<HeapVector<HeapVector<int>>>("nested")()->resize(2);
}

void put_texts(Heap& heap) {
  heap.construct<HeapString>("text")("Berlin-Dahlem");
  heap.construct<HeapString>("empty text")();
  heap.construct<HeapString>("longest short text")(std::string(22, 's').c_str());
  heap.construct<HeapString>("shortest long text")(std::string(23, 'l').c_str());
  heap.construct<HeapString>("long text")((std::string(10'000, 'x') + "Z\xc3\xbcrich").c_str());
  heap.construct<HeapString>("no UTF-8")("caf\xe9");
  heap.construct<HeapString>("texts[2]")[2]("each");
  heap.construct<tiermap::HeapMap<HeapString, double>>("map")();
  heap.construct<double>(tiermap::unique_object)(2.25);
  heap.construct<int>("caf\xe9")(5);
  heap.describe("text", "where it was measured");
}

void put_many(Heap& heap) {
  auto& numbers = *heap.construct<HeapVector<std::int64_t>>("numbers")();
  numbers.resize(1 << 20);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i * 3);
}

[[noreturn]] void crash(Heap& heap, bool checkpoint) {
  heap.construct<int>("value")(1);
  put_many(heap);
  if (checkpoint) heap.checkpoint();
  *heap.find<int>("value") = 2;
  heap.construct<int>("fresh")(3);
  ::_exit(0);
}

int run(const std::string& mode, const std::string& path) {
  const HeapOptions options{.capacity_bytes = 64 << 20,
                            .budget_bytes = 16 << 20,
                            .backing = mode == "sparse" ? HeapBacking::sparse : HeapBacking::file,
                            .checkpoints = mode != "direct"};
  Heap heap = mode == "append" || mode == "hold" ? Heap::open(path, options) : Heap::create(path, options);
  if (mode == "all") {
    put_numbers(heap);
    put_arrays(heap);
    put_texts(heap);
  } else if (mode == "numbers" || mode == "sparse") {
    put_many(heap);
  } else if (mode == "weather") {
    heap.construct<HeapVector<double>>("degrees")()->assign({7.5, 8.5, 9.5});
  } else if (mode == "append") {
    heap.find<HeapVector<std::int64_t>>("numbers")->push_back(-1);
  } else if (mode == "hold") {
    std::cout << "open" << std::endl;
    std::cin.get();
  } else {
    crash(heap, mode == "crash");
  }
  heap.close();
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: heap_writer MODE PATH\n");
    return 2;
  }
  try {
    return run(arguments[1], arguments[2]);
  } catch (const tiermap::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code().value() == EBUSY ? 3 : 1;
  }
}
