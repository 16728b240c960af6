#include "kmer/kmer_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "command_line/text_input.hpp"
#include "config/size.hpp"
#include "kmer/read_work.hpp"
#include "parallel/random.hpp"

namespace tiermap {
namespace {

/// What a thread takes at a time.
constexpr std::uint64_t block_kmers = 128;

void append_line(std::string& text, Kmer kmer, std::uint32_t k, const std::vector<TaxonCount>& list) {
  text += kmer_text(kmer, k);
  for (const TaxonCount& element : list) {
    text += fmt::format("\t{}:{}", element.taxon, element.count);
  }
  text += '\n';
}

}  // namespace

LookupTotals look_up_kmers(std::span<const Kmer> kmers, std::uint32_t k, KmerLookup& lookup, ThreadTeam& team,
                           OrderedOutput& output, ProgressDisplay& progress) {
  std::vector<LookupTotals> blocks((kmers.size() + block_kmers - 1) / block_kmers);
  std::atomic<std::uint64_t> next{0};
  team.run([&](std::uint32_t) {
    std::vector<TaxonCount> list;
    for (std::uint64_t block = next++; block < blocks.size(); block = next++) {
      const std::uint64_t first = block * block_kmers;
      const auto part = kmers.subspan(first, std::min(block_kmers, kmers.size() - first));
      LookupTotals totals;
      std::string text;
      lookup.announce(part);
      for (const Kmer kmer : part) {
        totals.found += lookup.find(kmer, list) ? 1U : 0U;
        totals.taxa += list.size();
        for (const TaxonCount& element : list) {
          totals.digest += mix_word(mix_word(kmer) ^ list_word(element, false));
        }
        if (output.is_wanted()) {
          append_line(text, kmer, k, list);
        }
      }
      blocks[block] = totals;
      output.add(block, std::move(text));
      progress.add(part.size());
    }
  });
  LookupTotals sum;
  for (const LookupTotals& block : blocks) {
    sum.found += block.found;
    sum.taxa += block.taxa;
    sum.digest += block.digest;
  }
  return sum;
}

std::vector<Kmer> read_kmers(const std::string& path, std::uint32_t k, std::uint64_t most) {
  TextInput input(path, "a file with a k-mer a line");
  std::vector<Kmer> kmers;
  std::string text;
  for (std::uint64_t line = 1; kmers.size() < most && input.next_line(text); line = input.line()) {
    text.resize(text.find_last_not_of(" \t") + 1);
    if (text.empty() || text[0] == '#') {
      continue;
    }
    const std::size_t before = kmers.size();
    for_each_kmer(text, k, [&](Kmer kmer) { kmers.push_back(kmer); });
    if (text.size() != k || kmers.size() != before + 1) {
      input.refuse(line, fmt::format("{} is not {} known bases, as the database has them: write one k-mer a line",
                                     quote_value(text), k));
    }
  }
  if (kmers.empty()) {
    input.refuse(1, fmt::format("the file has no k-mer in it: write lines of {} bases", k));
  }
  return kmers;
}

std::vector<Kmer> kmers_of_reads(const std::vector<std::string>& paths, std::uint32_t k, std::uint64_t most) {
  std::vector<Kmer> kmers;
  for_each_read(paths, [&](const std::string& bases) {
    for_each_kmer(bases, k, [&](Kmer kmer) {
      if (kmers.size() < most) {
        kmers.push_back(kmer);
      }
    });
    return kmers.size() < most;
  });
  return kmers;
}

}  // namespace tiermap
