// Runs a fuzz target without a fuzzer: on every file of a corpus, on changed copies of each, and on random bytes. The
// changes come from a fixed seed, so that a failure happens again.
//   replay-NAME CORPUS_DIRECTORY ROUNDS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

void run(const Bytes& input) {
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

Bytes change(Bytes input, std::mt19937_64& random) {
  const std::uint64_t changes = 1 + random() % 4;
  for (std::uint64_t round = 0; round < changes; ++round) {
    const std::size_t at = input.empty() ? 0 : random() % input.size();
    const auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 5) {
      case 0:
        input.resize(at);
        break;
      case 1:
        input.insert(place, static_cast<std::uint8_t>(random()));
        break;
      case 2:
        input.insert(input.end(), input.begin(), place);
        break;
      default:
        if (!input.empty()) {
          *place = static_cast<std::uint8_t>(random() % 2 == 0 ? *place ^ (1U << random() % 8) : random());
        }
    }
  }
  return input;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: %s CORPUS_DIRECTORY ROUNDS\n", arguments[0]);
    return 2;
  }
  std::vector<Bytes> corpus;
  if (std::filesystem::is_directory(arguments[1])) {
    for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) {
      std::ifstream file(entry.path(), std::ios::binary);
      corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  run({});
  std::mt19937_64 random(1);
  const long rounds = std::strtol(arguments[2], nullptr, 10);
  for (long round = 0; round < rounds; ++round) {
    Bytes noise(random() % 100);
    for (std::uint8_t& byte : noise) {
      byte = static_cast<std::uint8_t>(random());
    }
    run(noise);
    for (const Bytes& seed : corpus) {
      run(round == 0 ? seed : change(seed, random));
    }
  }
  std::printf("%zu seeds, %ld rounds\n", corpus.size(), rounds);
  return 0;
}
