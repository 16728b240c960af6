#include "kmer/fasta_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/size.hpp"
#include "kmer/kmer.hpp"

namespace tiermap {
namespace {

constexpr std::size_t most_name_bytes = std::size_t{64} << 10U;

bool is_blank(char letter) {
  return letter == ' ' || letter == '\t';
}

}  // namespace

SequenceReader::SequenceReader(const std::string& path, std::size_t most_bases)
    : input_(path, sequence_file), most_bases_(most_bases) {}

bool SequenceReader::next(SequencePiece& piece) {
  piece.begins = !in_record_;
  if (!in_record_ && !begin_record()) {
    return false;
  }
  piece.id = id_;
  piece.description = description_;
  piece.line = record_line_;
  piece.bases.clear();
  if (mark_ == '>') {
    read_fasta(piece);
  } else {
    read_fastq(piece);
  }
  return true;
}

void SequenceReader::begin_file() {
  const int first = input_.peek();
  if (first < 0) {
    input_.refuse(input_.line(), "the file has no sequence in it: name a FASTA or FASTQ file");
  }
  if (first != '>' && first != '@') {
    std::string text;
    const std::uint64_t line = input_.line();
    input_.take(text, 40);
    input_.refuse(line, quote_value(text) + " begins with neither > (FASTA) nor @ (FASTQ): name such a file");
  }
  mark_ = static_cast<char>(first);
}

/// Reads the line that names the next sequence; false if there is none.
bool SequenceReader::begin_record() {
  std::string blank;
  for (int next = input_.peek(); next == '\n' || next == '\r' || next == ' ' || next == '\t'; next = input_.peek()) {
    const std::uint64_t line = input_.line();
    blank.clear();
    input_.take(blank, most_name_bytes);
    if (blank.find_first_not_of(" \t") != std::string::npos) {
      input_.refuse(line, quote_value(blank) + " begins with a blank: remove the blank");
    }
  }
  if (mark_ == 0) {
    begin_file();
  }
  record_line_ = input_.line();
  const int next = input_.peek();
  if (next < 0) {
    return false;
  }
  std::string name;
  if (!input_.take(name, most_name_bytes)) {
    input_.refuse(record_line_, "the line that names a sequence is longer than 64 KiB: shorten it");
  }
  if (next != mark_) {
    input_.refuse(record_line_,
                  fmt::format("{} stands where the next read's {} should: a record of FASTQ has four lines, and "
                              "this file is damaged before here",
                              quote_value(name), mark_));
  }
  const std::size_t end = std::min(name.find_first_of(" \t"), name.size());
  id_ = name.substr(1, end - 1);
  if (id_.empty()) {
    input_.refuse(record_line_, fmt::format("the sequence has no name: write for example {}first", mark_));
  }
  const std::size_t rest = name.find_first_not_of(" \t", end);
  description_ = rest == std::string::npos ? std::string() : name.substr(rest);
  record_bases_ = 0;
  at_line_start_ = true;
  return true;
}

bool SequenceReader::at_record_end() {
  const int next = input_.peek();
  return next < 0 || (at_line_start_ && next == mark_);
}

void SequenceReader::read_fasta(SequencePiece& piece) {
  while (piece.bases.size() < most_bases_ && !at_record_end()) {
    const std::uint64_t line = input_.line();
    const std::size_t from = piece.bases.size();
    at_line_start_ = input_.take(piece.bases, most_bases_ - from);
    check_bases(piece.bases, from, line);
    record_bases_ += piece.bases.size() - from;
  }
  piece.ends = at_record_end();
  in_record_ = !piece.ends;
  if (piece.ends && record_bases_ == 0) {
    input_.refuse(record_line_, fmt::format("sequence {} has no bases: the file is cut off there, or remove the line",
                                            quote_value(id_)));
  }
}

void SequenceReader::read_fastq(SequencePiece& piece) {
  const std::uint64_t line = input_.line();
  take_fastq_line(piece.bases, "its bases");
  check_bases(piece.bases, 0, line);
  std::string text;
  const std::uint64_t plus_line = input_.line();
  take_fastq_line(text, "its line with +");
  if (!text.starts_with('+')) {
    input_.refuse(plus_line, fmt::format("{} stands where the + of read {} should: a record of FASTQ has four lines, "
                                         "write its bases on one",
                                         quote_value(text), quote_value(id_)));
  }
  text.clear();
  const std::uint64_t quality_line = input_.line();
  take_fastq_line(text, "its qualities");
  text.resize(text.find_last_not_of(" \t") + 1);
  if (text.size() != piece.bases.size()) {
    input_.refuse(quality_line,
                  fmt::format("read {} has {} bases and {} qualities: the file is {}, get it again", quote_value(id_),
                              piece.bases.size(), text.size(), input_.peek() < 0 ? "cut off" : "damaged"));
  }
  piece.ends = true;
}

void SequenceReader::take_fastq_line(std::string& text, const char* what) {
  if (input_.peek() < 0) {
    input_.refuse(input_.line(),
                  fmt::format("the file ends after read {} began, before {}: it is cut off, get it again",
                              quote_value(id_), what));
  }
  input_.take(text, whole);
}

/// Removes blanks, and refuses what is no base.
void SequenceReader::check_bases(std::string& bases, std::size_t from, std::uint64_t line) const {
  const auto first = bases.begin() + static_cast<std::ptrdiff_t>(from);
  const auto is_odd = [](char letter) { return base_code(letter) == not_a_base; };
  auto odd = std::find_if(first, bases.end(), is_odd);
  if (odd == bases.end()) {
    return;
  }
  bases.erase(std::remove_if(odd, bases.end(), is_blank), bases.end());
  odd = std::find_if(bases.begin() + static_cast<std::ptrdiff_t>(from), bases.end(), is_odd);
  if (odd != bases.end()) {
    input_.refuse(line, fmt::format("{} in sequence {} is no base: write A, C, G, T, U, or N for what is not known",
                                    quote_value(std::string(1, *odd)), quote_value(id_)));
  }
}

}  // namespace tiermap
