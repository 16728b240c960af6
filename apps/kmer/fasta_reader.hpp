// Sequences from FASTA and FASTQ files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "command_line/text_input.hpp"

namespace tiermap {

/// A sequence, or a part of a long one.
struct SequencePiece {
  std::string id;           ///< The first word of the line that names it.
  std::string description;  ///< The rest of that line.
  std::uint64_t line = 0;   ///< Where that line is.
  std::string bases;        ///< As they stand in the file: in either case, N and the like among them.
  bool begins = true;       ///< Whether the sequence begins with this piece.
  bool ends = true;         ///< Whether it ends with it.
};

inline constexpr const char* sequence_file = "a FASTA or FASTQ file";

/// Reads a file from its beginning to its end. FASTA: `>id description`, then bases on any number of lines. FASTQ:
/// records of four lines. Every mistake is an OptionError that names file and line.
class SequenceReader {
 public:
  static constexpr std::size_t whole = std::string::npos;

  /// Sequences of FASTA longer than `most_bases` come in several pieces of at most so many. Throws as TextInput does.
  explicit SequenceReader(const std::string& path, std::size_t most_bases = whole);

  /// The next piece; false after the last. A piece may be empty if it only ends a sequence.
  bool next(SequencePiece& piece);

  const std::string& path() const noexcept { return input_.path(); }
  std::uint64_t position() const noexcept { return input_.position(); }

 private:
  void begin_file();
  bool begin_record();
  void read_fasta(SequencePiece& piece);
  void read_fastq(SequencePiece& piece);
  void read_name(SequencePiece& piece);
  void take_fastq_line(std::string& text, const char* what);
  void check_bases(std::string& bases, std::size_t from, std::uint64_t line) const;
  bool at_record_end();

  TextInput input_;
  std::size_t most_bases_;
  char mark_ = 0;  ///< What each record begins with.
  bool in_record_ = false;
  bool at_line_start_ = true;
  std::uint64_t record_bases_ = 0;
  std::string id_;
  std::string description_;
  std::uint64_t record_line_ = 0;
};

}  // namespace tiermap
