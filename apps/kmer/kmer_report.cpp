#include "kmer/kmer_report.hpp"

#include <fmt/format.h>

namespace tiermap {

void describe_generated(const GeneratorOptions& generator, Report& report) {
  report.workload = "kmer-generate";
  report.operations = generator.organisms * generator.genome_bases;
  report.bytes = GenomeGenerator(generator).fasta_bytes();
  report.fields["organisms"] = generator.organisms;
  report.fields["genome_bases"] = generator.genome_bases;
  report.fields["reads"] = generator.reads;
  report.remark =
      fmt::format("{} genomes of {} bases, {} reads", generator.organisms, generator.genome_bases, generator.reads);
}

void describe_database(const DatabaseHeader& header, Report& report) {
  report.bytes = header.file_bytes;
  report.fields["k"] = header.k;
  report.fields["index"] = index_name(header.index);
  report.fields["kmers"] = header.kmers;
  report.fields["list_elements"] = header.list_words - 1;
  report.fields["taxa"] = header.taxa;
  report.fields["sequences"] = header.sequences;
  report.remark = fmt::format("{} {}-mers of {} sequences, index {}", header.kmers, header.k, header.sequences,
                              index_name(header.index));
}

void describe_lookups(const LookupTotals& totals, std::uint64_t kmers, double seconds, Report& report) {
  report.workload = "kmer-lookup";
  report.operations = kmers;
  report.fields["kmers_found"] = totals.found;
  report.fields["taxa_found"] = totals.taxa;
  report.fields["kmers_per_second"] = static_cast<double>(kmers) / seconds;
  report.fields["digest"] = fmt::format("{:016x}", totals.digest);
  report.remark += fmt::format("; {} k-mers looked up, {} found, {:.0f} a second", kmers, totals.found,
                               report.fields["kmers_per_second"].get<double>());
}

void describe_reads(const ReadTotals& totals, double seconds, Report& report) {
  report.workload = "kmer-classify";
  report.operations = totals.kmers;
  report.fields["reads"] = totals.reads;
  report.fields["bases"] = totals.bases;
  report.fields["classified"] = totals.classified;
  report.fields["short_reads"] = totals.short_reads;
  report.fields["kmers_found"] = totals.found;
  report.fields["kmers_per_second"] = static_cast<double>(totals.kmers) / seconds;
  report.fields["bases_per_second"] = static_cast<double>(totals.bases) / seconds;
  report.fields["reads_with_truth"] = totals.told;
  report.fields["right"] = totals.right;
  report.fields["above"] = totals.above;
  report.fields["wrong"] = totals.wrong;
  report.fields["digest"] = fmt::format("{:016x}", totals.digest);
  report.remark += fmt::format("; {} of {} reads classified, {:.0f} k-mers a second", totals.classified, totals.reads,
                               report.fields["kmers_per_second"].get<double>());
  if (totals.told > 0) {
    report.remark += fmt::format("\nof {} reads whose taxon is known {} got it, {} a group above it, {} another",
                                 totals.told, totals.right, totals.above, totals.wrong);
  }
}

std::string explain_short_reads(const ReadTotals& totals, std::uint32_t k) {
  if (totals.short_reads == 0) {
    return {};
  }
  const std::string which =
      totals.short_reads == 1 ? std::string("1 read is") : fmt::format("{} reads are", totals.short_reads);
  return fmt::format(
      "{}: {} shorter than k, which is {}, this one first, and cannot be classified: use a database of "
      "a smaller k",
      totals.first_short_place, which, k);
}

}  // namespace tiermap
