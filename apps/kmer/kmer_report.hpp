// The fields of the report that are this program's own, and the line for people.
#pragma once

#include <string>

#include "command_line/report.hpp"
#include "kmer/database_file.hpp"
#include "kmer/genome_generator.hpp"
#include "kmer/kmer_work.hpp"
#include "kmer/read_work.hpp"

namespace tiermap {

void describe_generated(const GeneratorOptions& generator, Report& report);
void describe_database(const DatabaseHeader& header, Report& report);
void describe_lookups(const LookupTotals& totals, std::uint64_t kmers, double seconds, Report& report);
void describe_reads(const ReadTotals& totals, double seconds, Report& report);

/// What to say of reads that are shorter than k; empty if none is.
std::string explain_short_reads(const ReadTotals& totals, std::uint32_t k);

}  // namespace tiermap
