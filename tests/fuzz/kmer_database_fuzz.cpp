// Whatever a database of k-mers holds, it is refused with a StoreError or answers from within its bounds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kmer/kmer_lookup.hpp"
#include "tiermap/error.hpp"

namespace {

using tiermap::DatabaseHeader;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// The input as a file: its first bytes are the header, the others what follows the header's page.
class DatabaseFile final : public tiermap::Store {
 public:
  DatabaseFile(const std::uint8_t* data, std::size_t size) {
    const std::size_t head = std::min(size, sizeof(DatabaseHeader));
    words_.resize(DatabaseHeader::bytes / 8 + (size - head + 7) / 8);
    std::memcpy(bytes(), data, head);
    std::memcpy(bytes() + DatabaseHeader::bytes, data + head, size - head);
  }
  std::uint64_t size_bytes() const override { return words_.size() * 8; }
  std::int64_t read(void* buffer, std::size_t count, std::uint64_t offset) override {
    const std::size_t got = std::min<std::uint64_t>(count, size_bytes() - std::min(size_bytes(), offset));
    std::memcpy(buffer, bytes() + offset, got);
    return static_cast<std::int64_t>(got);
  }
  std::byte* bytes() noexcept { return reinterpret_cast<std::byte*>(words_.data()); }
  /// Puts right what no chance would find, and sizes that would be refused.
  void repair() {
    DatabaseHeader header;
    std::memcpy(&header, bytes(), sizeof(header));
    const DatabaseHeader sound;
    std::memcpy(header.magic, sound.magic, sizeof(header.magic));
    header.version = sound.version;
    header.k = tiermap::least_k + header.k % (tiermap::most_k - tiermap::least_k + 1);
    header.high_bits = header.index == tiermap::IndexKind::hash ? 0 : header.high_bits % 5;
    if (header.index != tiermap::IndexKind::hash) {
      header.index = tiermap::IndexKind::two_level;
    }
    const std::uint64_t few = 64;
    header.taxa = 1 + header.taxa % few;
    header.name_bytes %= few;
    header.list_words = 1 + header.list_words % few;
    header.slots = 1 + header.slots % few;
    header.kmers = header.index == tiermap::IndexKind::hash ? header.kmers : header.slots;
    header.kmers %= few + 1;
    header.homes = header.index == tiermap::IndexKind::hash ? 1 + header.homes % header.slots
                                                            : (std::uint64_t{1} << header.high_bits) + 1;
    header.lay_out();
    header.checksum = header.computed_checksum();
    words_.resize(std::max<std::uint64_t>(words_.size(), (header.file_bytes + 7) / 8));
    std::memcpy(bytes(), &header, sizeof(header));
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// Words of which each that is asked for must be there.
struct BoundedWords {
  const std::uint64_t* words;
  std::uint64_t count;
  std::uint64_t operator[](std::uint64_t index) const {
    require(index < count);
    return words[index];
  }
};

void read_database(DatabaseFile& file) {
  try {
    const DatabaseHeader header = tiermap::read_database_header(file);
    require(header.file_bytes <= file.size_bytes());
    const BoundedWords words{reinterpret_cast<const std::uint64_t*>(file.bytes()), file.size_bytes() / 8};
    tiermap::DatabaseLookup<BoundedWords> lookup(header, words, "the file");
    std::vector<tiermap::TaxonCount> list;
    for (std::uint64_t number = 0; number < 64; ++number) {
      lookup.find(tiermap::mix_word(number) & tiermap::kmer_mask(header.k), list);
      require(list.size() < header.list_words);
    }
    tiermap::read_database_taxonomy(file, header);
  } catch (const tiermap::StoreError& error) {
    require(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  DatabaseFile file(data, size);
  read_database(file);
  file.repair();
  read_database(file);
  return 0;
}
