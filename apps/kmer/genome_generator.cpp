#include "kmer/genome_generator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "parallel/random.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Of a base from a taxon to each that is right below it.
constexpr double mutation_rate = 0.05;
/// One base of so many is not known, and one block of so many is in lower case, as masked repeats are.
constexpr std::uint64_t bases_for_each_unknown = 4096;
constexpr std::uint64_t masked_block = 256;
constexpr std::uint64_t blocks_for_each_masked = 8;
constexpr std::size_t line_bases = 80;

constexpr std::uint64_t salt_of_unknown = 0x6e;
constexpr std::uint64_t salt_of_masked = 0x6d;
constexpr std::uint64_t salt_of_reads = 0x72;
constexpr std::uint64_t salt_of_errors = 0x65;

/// True with that probability, by the high bits of a random word.
bool happens(std::uint64_t word, double probability) noexcept {
  return static_cast<double>(word >> 11U) * 0x1.0p-53 < probability;
}

/// A new file that is written from its beginning.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path) {
    if (std::filesystem::exists(path)) {
      throw StoreError(EEXIST, path + " exists: name another folder, or remove it");
    }
    file_.open(path, std::ios::binary);
    check();
  }
  void write(const std::string& text) {
    file_ << text;
    check();
  }
  void close() {
    file_.close();
    check();
  }

 private:
  void check() const {
    if (!file_) {
      const int number = errno == 0 ? EIO : errno;
      throw StoreError(number, fmt::format("{} cannot be written: {}", path_, std::generic_category().message(number)));
    }
  }
  std::string path_;
  std::ofstream file_;
};

/// Distinct k-mers at one position below `node`, and the chance that the node's own one is left in some organism.
struct Expectation {
  double changed = 0;
  double survives = 1;
};

Expectation expect_below(std::uint32_t node, std::uint32_t nodes, std::uint32_t children, double changes) {
  const std::uint64_t first = std::uint64_t{node} * children + 1;
  if (first >= nodes) {
    return {};
  }
  Expectation sum{0, 1};
  for (std::uint64_t child = first; child < std::min<std::uint64_t>(first + children, nodes); ++child) {
    const Expectation below = expect_below(static_cast<std::uint32_t>(child), nodes, children, changes);
    sum.changed += below.changed + changes * below.survives;
    sum.survives *= 1 - (1 - changes) * below.survives;
  }
  sum.survives = 1 - sum.survives;
  return sum;
}

}  // namespace

GeneratedFiles GeneratedFiles::in_folder(const std::string& folder) {
  return {folder + "/genomes.fasta", folder + "/taxonomy.tsv", folder + "/sequence-taxa.tsv", folder + "/reads.fastq"};
}

GenomeGenerator::GenomeGenerator(const GeneratorOptions& options)
    : options_(options), nodes_(nodes_for(options.organisms)) {}

/// Nodes are numbered level by level, each with up to `children` children: those at the end have none.
std::uint32_t GenomeGenerator::nodes_for(std::uint32_t organisms) noexcept {
  std::uint32_t nodes = 1;
  while (nodes - (nodes - 1 + children - 1) / children < organisms) {
    ++nodes;
  }
  return nodes;
}

double GenomeGenerator::kmers_per_position(std::uint32_t organisms, std::uint32_t k) {
  const double changes = 1 - std::pow(1 - mutation_rate, static_cast<double>(k));
  const Expectation root = expect_below(0, nodes_for(organisms), children, changes);
  return root.survives + root.changed;
}

std::uint64_t GenomeGenerator::fasta_bytes() const noexcept {
  return options_.organisms * (options_.genome_bases + options_.genome_bases / line_bases + 64);
}

std::uint8_t GenomeGenerator::base(std::uint32_t node, std::uint64_t position) const noexcept {
  std::uint64_t changes = 0;
  for (; node != 0; node = parent(node)) {
    const std::uint64_t word = random_word(options_.seed ^ std::uint64_t{node} << 32U, position);
    // To one of the three other bases.
    changes += happens(word, mutation_rate) ? 1 + (word & 0xffU) % 3 : 0;
  }
  return static_cast<std::uint8_t>((random_word(options_.seed, position) + changes) & 3U);
}

char GenomeGenerator::genome_letter(std::uint32_t node, std::uint64_t position) const noexcept {
  const std::uint64_t seed = options_.seed ^ std::uint64_t{node} << 32U;
  if (random_word(seed ^ salt_of_unknown, position) % bases_for_each_unknown == 0) {
    return 'N';
  }
  const bool masked = random_word(seed ^ salt_of_masked, position / masked_block) % blocks_for_each_masked == 0;
  return (masked ? "acgt" : "ACGT")[base(node, position)];
}

std::string GenomeGenerator::sequence_name(std::uint32_t node, bool plasmid) const {
  return fmt::format("organism-{}.{}", node - first_organism() + 1, plasmid ? 2 : 1);
}

void GenomeGenerator::write(const GeneratedFiles& files, ProgressDisplay& progress) const {
  write_taxonomy(files);
  write_genomes(files.genomes, progress);
  write_reads(files.reads, progress);
}

void GenomeGenerator::write_taxonomy(const GeneratedFiles& files) const {
  NewFile taxonomy(files.taxonomy);
  taxonomy.write("# id, parent, name\n");
  NewFile sequence_taxa(files.sequence_taxa);
  sequence_taxa.write("# sequence, taxonomy id\n");
  for (std::uint32_t node = 0; node < nodes_; ++node) {
    const bool organism = node >= first_organism();
    const std::string name = node == 0  ? std::string("root")
                             : organism ? fmt::format("organism {}", node - first_organism() + 1)
                                        : fmt::format("clade {}", node);
    taxonomy.write(fmt::format("{}\t{}\t{}\n", node + 1, parent(node) + 1, name));
    if (organism) {
      sequence_taxa.write(fmt::format("{}\t{}\n", sequence_name(node, false), node + 1));
      sequence_taxa.write(fmt::format("{}\t{}\n", sequence_name(node, true), node + 1));
    }
  }
  taxonomy.close();
  sequence_taxa.close();
}

void GenomeGenerator::write_genomes(const std::string& path, ProgressDisplay& progress) const {
  progress.restart("generating genomes", options_.organisms * options_.genome_bases);
  NewFile file(path);
  const std::uint64_t plasmid_at = options_.genome_bases - options_.genome_bases / 4;
  std::string line;
  for (std::uint32_t node = first_organism(); node < nodes_; ++node) {
    for (const bool plasmid : {false, true}) {
      const std::uint64_t end = plasmid ? options_.genome_bases : plasmid_at;
      file.write(fmt::format(">{} {}\n", sequence_name(node, plasmid), plasmid ? "plasmid" : "chromosome"));
      for (std::uint64_t position = plasmid ? plasmid_at : 0; position < end;) {
        line.clear();
        for (; line.size() < line_bases && position < end; ++position) {
          line += genome_letter(node, position);
        }
        progress.add(line.size());
        line += '\n';
        file.write(line);
      }
    }
  }
  file.close();
}

void GenomeGenerator::write_reads(const std::string& path, ProgressDisplay& progress) const {
  progress.restart("generating reads", options_.reads);
  NewFile file(path);
  std::string bases;
  for (std::uint64_t read = 0; read < options_.reads; ++read) {
    const auto draw = [&](std::uint64_t which) { return random_word(options_.seed ^ salt_of_reads, read * 4 + which); };
    const auto node = first_organism() + static_cast<std::uint32_t>(draw(0) % options_.organisms);
    const std::uint64_t length = std::min<std::uint64_t>(options_.read_bases, options_.genome_bases);
    const std::uint64_t first = draw(1) % (options_.genome_bases - length + 1);
    const bool reverse = draw(2) % 2 == 1;
    bases.clear();
    for (std::uint64_t step = 0; step < length; ++step) {
      std::uint8_t code = base(node, reverse ? first + length - 1 - step : first + step);
      code = reverse ? 3 - code : code;
      const std::uint64_t word = random_word(options_.seed ^ salt_of_errors, read * length + step);
      const bool error = happens(word, options_.error_rate);
      // Of sixteen errors one is a base that the machine could not tell.
      bases += error && word % 16 == 0 ? 'N' : "ACGT"[(code + (error ? 1 + (word >> 4U) % 3 : 0)) & 3U];
    }
    file.write(fmt::format("@read-{} taxonomy={} position={}{}\n{}\n+\n{}\n", read + 1, node + 1, first + 1,
                           reverse ? '-' : '+', bases, std::string(bases.size(), 'I')));
    progress.add(1);
  }
  file.close();
}

}  // namespace tiermap
