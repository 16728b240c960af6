// Genomes and reads whose truth is known: a random ancestor, changed base by base along a tree of taxa, and short
// pieces of the genomes at its leaves with errors in them. A base follows from the seed, its taxon and its position
// alone, so that nothing has to be kept, whatever the size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kmer/taxonomy.hpp"
#include "observe/progress.hpp"

namespace tiermap {

struct GeneratorOptions {
  std::uint32_t organisms = 64;
  std::uint64_t genome_bases = 100'000;  ///< Of each organism.
  std::uint64_t reads = 2000;
  std::uint32_t read_bases = 100;
  double error_rate = 0.01;  ///< Of each base of a read.
  std::uint64_t seed = 1;
};

/// What is written, beside each other in one folder.
struct GeneratedFiles {
  std::string genomes;        ///< FASTA; two sequences for each organism.
  std::string taxonomy;       ///< As read_taxonomy() reads it.
  std::string sequence_taxa;  ///< As read_sequence_taxa() reads it.
  std::string reads;          ///< FASTQ; `taxonomy=ID` in the description tells the truth.

  static GeneratedFiles in_folder(const std::string& folder);
};

class GenomeGenerator {
 public:
  explicit GenomeGenerator(const GeneratorOptions& options);

  /// Throws StoreError if a file is there already or cannot be written.
  void write(const GeneratedFiles& files, ProgressDisplay& progress) const;
  /// Bytes of the FASTA file, about.
  std::uint64_t fasta_bytes() const noexcept;

  /// A taxon's base at a position, 0 to 3. `node` counts from 0, the root.
  std::uint8_t base(std::uint32_t node, std::uint64_t position) const noexcept;
  std::uint32_t nodes() const noexcept { return nodes_; }
  /// The organisms are the last of the nodes.
  std::uint32_t first_organism() const noexcept { return nodes_ - options_.organisms; }
  static std::uint32_t parent(std::uint32_t node) noexcept { return node == 0 ? 0 : (node - 1) / children; }

  /// How many different k-mers there are for each position of a genome, about.
  static double kmers_per_position(std::uint32_t organisms, std::uint32_t k);

 private:
  static constexpr std::uint32_t children = 4;
  static std::uint32_t nodes_for(std::uint32_t organisms) noexcept;

  void write_genomes(const std::string& path, ProgressDisplay& progress) const;
  void write_taxonomy(const GeneratedFiles& files) const;
  void write_reads(const std::string& path, ProgressDisplay& progress) const;
  std::string sequence_name(std::uint32_t node, bool plasmid) const;
  char genome_letter(std::uint32_t node, std::uint64_t position) const noexcept;

  GeneratorOptions options_;
  std::uint32_t nodes_;
};

}  // namespace tiermap
