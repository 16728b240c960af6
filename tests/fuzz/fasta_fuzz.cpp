// Any text is sequences of bases, the same in one piece and in many, or is refused with one line.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kmer/fasta_reader.hpp"
#include "kmer/kmer.hpp"
#include "tiermap/error.hpp"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// A file in memory, whose path the reader opens.
int file_with(const std::uint8_t* data, std::size_t size) {
  static const int descriptor = ::memfd_create("sequences", MFD_CLOEXEC);
  require(descriptor >= 0 && ::ftruncate(descriptor, 0) == 0);
  require(::pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size));
  return descriptor;
}

/// All sequences up to the first mistake, and whether there was one.
struct Sequences {
  std::string text;
  bool refused = false;
};

Sequences read_sequences(const std::string& path, std::size_t most_bases) {
  Sequences sequences;
  try {
    tiermap::SequenceReader reader(path, most_bases);
    tiermap::SequencePiece piece;
    bool ended = true;
    while (reader.next(piece)) {
      require(piece.begins == ended && !piece.id.empty());
      ended = piece.ends;
      sequences.text += piece.begins ? ">" + piece.id + " " + piece.description + "\n" : std::string();
      for (const char base : piece.bases) {
        require(tiermap::base_code(base) != tiermap::not_a_base);
      }
      sequences.text += piece.bases;
    }
    require(ended && !sequences.text.empty());
  } catch (const tiermap::OptionError& error) {
    require(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
    sequences.refused = true;
  }
  return sequences;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = "/proc/self/fd/" + std::to_string(file_with(data, size));
  const Sequences whole = read_sequences(path, tiermap::SequenceReader::whole);
  for (const std::size_t most_bases : {1U, 7U}) {
    const Sequences pieces = read_sequences(path, most_bases);
    require(pieces.refused == whole.refused && (whole.refused || pieces.text == whole.text));
  }
  return 0;
}
