// The parts of tiermap-kmer by hand-made known answers: k-mers, sequences from text, the taxonomy, the vote, and both
// indexes against a table made with strings.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "apps/program_fixture.hpp"
#include "command_line/memory_system.hpp"
#include "kmer/classifier.hpp"
#include "kmer/database_builder.hpp"
#include "kmer/database_check.hpp"
#include "kmer/fasta_reader.hpp"
#include "kmer/genome_generator.hpp"
#include "kmer/kmer.hpp"
#include "kmer/kmer_lookup.hpp"
#include "kmer/kmer_runs.hpp"
#include "kmer/read_work.hpp"
#include "kmer/taxonomy.hpp"
#include "tiermap/error.hpp"

namespace tiermap::test {
namespace {

std::string random_bases(std::mt19937_64& random, std::size_t length) {
  std::string bases;
  for (std::size_t index = 0; index < length; ++index) {
    bases += random() % 40 == 0 ? 'N' : "ACGTacgtU"[random() % 9];
  }
  return bases;
}

/// The lesser of a k-mer and its reverse complement as strings; nothing if a letter is not one base.
std::optional<std::string> canonical_text(std::string text) {
  std::string reverse;
  for (char& letter : text) {
    letter = static_cast<char>(std::toupper(letter));
    letter = letter == 'U' ? 'T' : letter;
    const std::size_t at = std::string("ACGT").find(letter);
    if (at == std::string::npos) {
      return std::nullopt;
    }
    reverse.insert(reverse.begin(), "TGCA"[at]);
  }
  return std::min(text, reverse);
}

std::vector<std::string> kmers_by_strings(const std::string& bases, std::uint32_t k) {
  std::vector<std::string> kmers;
  for (std::size_t begin = 0; begin + k <= bases.size(); ++begin) {
    if (const auto kmer = canonical_text(bases.substr(begin, k))) {
      kmers.push_back(*kmer);
    }
  }
  return kmers;
}

TEST(KmerTest, TheCanonicalOnesAreThoseOfStrings) {
  std::mt19937_64 random(1);
  for (std::uint32_t k = least_k; k <= most_k; ++k) {
    const std::string bases = random_bases(random, 300);
    std::vector<std::string> found;
    for_each_kmer(bases, k, [&](Kmer kmer) {
      EXPECT_EQ(canonical_kmer(kmer, k), kmer);
      EXPECT_EQ(canonical_kmer(reverse_complement(kmer, k), k), kmer);
      found.push_back(kmer_text(kmer, k));
    });
    EXPECT_EQ(found, kmers_by_strings(bases, k)) << k;
  }
}

class KmerFileTest : public ProgramTest {
 protected:
  /// Every record as "id|description|bases;", read in pieces of at most so many bases.
  std::string read_all(const std::string& text, std::size_t most = SequenceReader::whole) {
    SequenceReader reader(write_file("sequences", text), most);
    SequencePiece piece;
    std::string all;
    while (reader.next(piece)) {
      EXPECT_TRUE(text[0] == '@' || piece.bases.size() <= most);
      all += piece.begins ? piece.id + "|" + piece.description + "|" : std::string();
      all += piece.bases + (piece.ends ? ";" : "");
    }
    return all;
  }
  static std::string message_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  /// One line with these parts.
  static void expect_error(const std::function<void()>& work, const std::string& place, const std::string& part) {
    const std::string message = message_of(work);
    EXPECT_NE(message.find(place), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
};

TEST_F(KmerFileTest, ReadsFastaWithAnyLineEnds) {
  const std::string expected = "a|first one|ACGTNacgt;b||TTTT;";
  for (const std::string& text : {std::string(">a first one\nACGTN\nacgt\n>b\nTTTT\n"),
                                  std::string(">a first one\r\nACGTN\r\nacgt\r\n>b\r\nTTTT"),
                                  std::string(">a first one\rACGTN\racgt\r>b\rTTTT\r"),
                                  std::string(">a  first one\r\nACGTN\nacgt\r>b\n\nTTTT\n\n"),
                                  std::string("\n\n>a first one\nACG TN \nacgt\t\n>b\nTT TT")}) {
    EXPECT_EQ(read_all(text), expected) << testing::PrintToString(text);
    for (const std::size_t most : {1U, 2U, 3U, 4U, 5U, 100U}) {
      EXPECT_EQ(read_all(text, most), expected) << most << testing::PrintToString(text);
    }
  }
}

TEST_F(KmerFileTest, ReadsFastqWithAnyLineEnds) {
  const std::string expected = "a|taxonomy=3|ACGT;b||;c||NN;";
  for (const std::string& text :
       {std::string("@a taxonomy=3\nACGT\n+\n@@@@\n@b\n\n+\n\n@c\nNN\n+c\nII\n"),
        std::string("@a taxonomy=3\r\nACGT\r\n+\r\nI>+@\r\n@b\r\n\r\n+b\r\n\r\n@c\rNN\r+\rII")}) {
    EXPECT_EQ(read_all(text), expected) << testing::PrintToString(text);
    EXPECT_EQ(read_all(text, 1000), expected);
  }
}

TEST_F(KmerFileTest, RefusesWhatIsNoSequenceByFileAndLine) {
  const struct {
    std::string text;
    std::string place;
    std::string part;
  } mistakes[] = {
      {"", "sequences:1:", "no sequence"},
      {"\n\n", "sequences:3:", "no sequence"},
      {"ACGT\n", "sequences:1:", "neither > (FASTA) nor @"},
      {" >a\nACGT\n", "sequences:1:", "remove the blank"},
      {">\nACGT\n", "sequences:1:", "no name"},
      {"> a\nACGT\n", "sequences:1:", "no name"},
      {">a\n", "sequences:1:", "cut off"},
      {">a\nAC\n>b\n>c\nAC\n", "sequences:3:", "no bases"},
      {">a\nACGT\nACXT\n", "sequences:3:", "'X'"},
      {">a\nAC-GT\n", "sequences:2:", "no base"},
      {std::string(">a\nAC\0GT\n", 9), "sequences:2:", "no base"},
      {">protein\nMKLV\n", "sequences:2:", "'L'"},
      {"@a\n", "sequences:2:", "cut off"},
      {"@a\nACGT\n", "sequences:3:", "cut off"},
      {"@a\nACGT\n+\n", "sequences:4:", "cut off"},
      {"@a\nACGT\n+\nII\n", "sequences:4:", "4 bases and 2 qualities: the file is cut off"},
      {"@a\nACGT\n+\nII\n@b\n", "sequences:4:", "damaged"},
      {"@a\nACGT\nACGT\n+\n", "sequences:3:", "four lines"},
      {"@a\nACGT\n+\nIIII\nACGT\n", "sequences:5:", "damaged before here"},
      {"\x1f\x8b\x08\x04", "sequences:1:", "gunzip"},
      {"BZh91AY", "sequences:1:", "bunzip2"},
      {"\x28\xb5\x2f\xfd", "sequences:1:", "unzstd"},
  };
  for (const auto& mistake : mistakes) {
    SCOPED_TRACE(testing::PrintToString(mistake.text));
    for (const std::size_t most : {std::size_t{3}, SequenceReader::whole}) {
      expect_error([&] { read_all(mistake.text, most); }, mistake.place, mistake.part);
    }
  }
  expect_error([&] { SequenceReader reader(path("none")); }, "none", "cannot be opened");
  expect_error([&] { SequenceReader reader(path("work")); }, "work", "plain file");
}

const char* const small_taxonomy =
    "# id, parent, name\n1\t1\troot\n10\t1\tbacteria\n20\t1\tviruses\n100\t10\tone kind\n101\t10\tanother\r\n"
    "1000\t100\tstrain\n";

TEST_F(KmerFileTest, TheTaxonomyKnowsCommonAncestors) {
  const Taxonomy taxonomy = read_taxonomy(write_file("taxonomy", small_taxonomy));
  EXPECT_EQ(taxonomy.size(), 6U);
  const auto common = [&](TaxonId one, TaxonId other) {
    return taxonomy.id(taxonomy.common_ancestor(taxonomy.place_of(one).value(), taxonomy.place_of(other).value()));
  };
  EXPECT_EQ(common(1000, 101), 10U);
  EXPECT_EQ(common(101, 1000), 10U);
  EXPECT_EQ(common(1000, 100), 100U);
  EXPECT_EQ(common(20, 1000), 1U);
  EXPECT_EQ(common(1, 1), 1U);
  EXPECT_EQ(taxonomy.name(taxonomy.place_of(101).value()), "another");
  EXPECT_FALSE(taxonomy.place_of(2).has_value());
  const std::vector<TaxonId> some = {101, 20};
  const Taxonomy part = taxonomy.only(some);
  EXPECT_EQ(part.size(), 4U);
  EXPECT_FALSE(part.place_of(100).has_value());
}

TEST_F(KmerFileTest, RefusesATaxonomyThatIsNone) {
  const struct {
    std::string text;
    std::string place;
    std::string part;
  } mistakes[] = {
      {"", "taxonomy:", "no taxon"},
      {"# nothing\n", "taxonomy:", "no taxon"},
      {"1\t1\troot\nx\t1\tbad\n", "taxonomy:2:", "two numbers"},
      {"1\n", "taxonomy:1:", "two numbers"},
      {"0\t1\tzero\n", "taxonomy:1:", "two numbers"},
      {"4294967295\t1\ttoo many\n", "taxonomy:1:", "4294967294"},
      {"1 1 root\n", "taxonomy:1:", "tab"},
      {"1\t|\t1\t|\tno rank\t|\n", "taxonomy:1:", "nodes.dmp"},
      {"1\t1\troot\n2\t1\ta\n\n2\t1\tb\n", "taxonomy:4:", "line 2 already"},
      {"1\t1\troot\n2\t3\ta\n", "taxonomy:2:", "parent 3"},
      {"1\t1\troot\n2\t0\tother\n", "taxonomy:2:", "neither has 1"},
      {"1\t2\ta\n2\t1\tb\n", "taxonomy:", "no root"},
      {"1\t1\troot\n2\t3\ta\n3\t4\tb\n4\t2\tc\n", "taxonomy:", "own ancestors"},
      {"\x1f\x8b\x08", "taxonomy:1:", "gunzip"},
  };
  for (const auto& mistake : mistakes) {
    SCOPED_TRACE(mistake.text);
    expect_error([&] { read_taxonomy(write_file("taxonomy", mistake.text)); }, mistake.place, mistake.part);
  }
  const Taxonomy taxonomy = read_taxonomy(write_file("taxonomy", small_taxonomy));
  const auto refuse = [&](const std::string& text, const std::string& place, const std::string& part) {
    expect_error([&] { read_sequence_taxa(write_file("table", text), taxonomy); }, place, part);
  };
  refuse("", "table:1:", "empty");
  refuse("a 1000\n", "table:1:", "tab");
  refuse("a\t1000\nb\t7\n", "table:2:", "not in the taxonomy");
  refuse("a\t1000\nb\t100\na\t1000\n", "table:3:", "before this one");
}

/// Lists by k-mers' texts.
class TextLookup final : public KmerLookup {
 public:
  explicit TextLookup(std::uint32_t k) : k_(k) {}
  std::map<std::string, std::map<TaxonId, std::uint32_t>> lists;
  const std::string& name() const noexcept override { return name_; }
  bool find(Kmer kmer, std::vector<TaxonCount>& list) override {
    list.clear();
    const auto found = lists.find(kmer_text(kmer, k_));
    if (found != lists.end()) {
      for (const auto& [taxon, count] : found->second) {
        list.push_back({taxon, count});
      }
    }
    return !list.empty();
  }

 private:
  const std::string name_ = "some lists";
  std::uint32_t k_;
};

TEST_F(KmerFileTest, TheVoteGoesToTheWayWithMostVotes) {
  const Taxonomy taxonomy = read_taxonomy(write_file("taxonomy", small_taxonomy));
  TextLookup lookup(4);
  // AAAC, AACC, ACCC, CCCA are canonical as they stand.
  lookup.lists["AAAC"] = {{1000, 1}, {101, 5}};  // Votes for 10.
  lookup.lists["AACC"] = {{100, 1}, {1000, 1}};  // For 100.
  lookup.lists["ACCC"] = {{1000, 1}};            // For 1000.
  lookup.lists["CCCA"] = {{20, 1}};              // For 20.
  lookup.lists["AATA"] = {{101, 1}};             // For 101.
  Classifier classifier(taxonomy, 4);
  const auto got = [&](const std::string& bases) { return classifier.classify(bases, lookup); };
  EXPECT_EQ(got("AAAC"), (Classification{10, 1, 1}));
  EXPECT_EQ(got("AAACC"), (Classification{100, 2, 2}));
  EXPECT_EQ(got("AAACCC"), (Classification{1000, 3, 3}));
  // Three votes on the way to 1000, one for 20.
  EXPECT_EQ(got("aaacccA"), (Classification{1000, 4, 4}));
  // One vote each for 20 and 1000: what they have in common.
  EXPECT_EQ(got("ACCCA"), (Classification{1, 2, 2}));
  EXPECT_EQ(got("ACCCNAATA"), (Classification{10, 2, 2}));
  // The other strand says the same.
  EXPECT_EQ(got("GGGTTT"), (Classification{1000, 3, 3}));
  EXPECT_EQ(got("GGGG"), (Classification{no_taxon, 1, 0}));
  EXPECT_EQ(got("ACG"), (Classification{no_taxon, 0, 0}));
  EXPECT_EQ(got(""), (Classification{no_taxon, 0, 0}));
  lookup.lists["AAAC"] = {{77, 1}};
  EXPECT_NE(message_of([&] { got("AAAC"); }).find("some lists is damaged"), std::string::npos);
}

TEST_F(KmerFileTest, ReadsThatSayWhereTheyAreFrom) {
  EXPECT_EQ(told_taxon("taxonomy=12 position=3"), 12U);
  EXPECT_EQ(told_taxon("length=100 taxonomy=7"), 7U);
  EXPECT_EQ(told_taxon("mytaxonomy=12"), no_taxon);
  EXPECT_EQ(told_taxon("taxonomy=x"), no_taxon);
  EXPECT_EQ(told_taxon(""), no_taxon);
}

TEST(KmerRunsTest, EqualRecordsAreCountedAndNoCountWraps) {
  constexpr std::uint32_t most = ~std::uint32_t{0};
  std::vector<KeyCount> records = {{5, 2, 1}, {3, 9, most}, {5, 1, 2}, {3, 9, 7}, {5, 2, 4}};
  records.resize(sort_and_count(records));
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].count, most);
  EXPECT_EQ(records[1].taxon, 1U);
  EXPECT_EQ(records[2].count, 5U);
}

class KmerBuildTest : public KmerFileTest, public testing::WithParamInterface<IndexKind> {};

// Both indexes hold exactly what strings say, built with room for a few thousand k-mers at once.
TEST_P(KmerBuildTest, TheDatabaseHoldsWhatStringsSay) {
  std::mt19937_64 random(7);
  const Taxonomy taxonomy = read_taxonomy(write_file("taxonomy", small_taxonomy));
  const std::vector<TaxonId> taxa = {20, 101, 1000};
  SequenceTaxa sequence_taxa;
  std::vector<std::pair<TaxonId, std::string>> sequences;
  std::string fasta;
  const std::string shared = random_bases(random, 3000);
  for (std::size_t index = 0; index < 9; ++index) {
    // What is shared, what is not, and more than a count has room for.
    std::string bases = shared + random_bases(random, 5000) + (index == 4 ? std::string(70'000, 'A') : std::string());
    const std::string name = "sequence-" + std::to_string(index);
    sequence_taxa[name] = taxa[index % taxa.size()];
    fasta += ">" + name + "\n" + bases + "\n";
    sequences.emplace_back(taxa[index % taxa.size()], bases);
  }
  const std::string genomes = write_file("genomes", fasta);
  for (const std::uint32_t k : {4U, 11U, 18U, 31U}) {
    TextLookup expected(k);
    for (const auto& [taxon, bases] : sequences) {
      for (const std::string& kmer : kmers_by_strings(bases, k)) {
        std::uint32_t& count = expected.lists[kmer][taxon];
        count = std::min<std::uint32_t>(count + 1, 65535);
      }
    }
    WorkloadOptions options;
    options.system = System::mmap;
    options.budget_bytes = std::uint64_t{256} << 10U;
    const std::unique_ptr<MemorySystem> system = MemorySystem::make(options);
    ThreadTeam team(3);
    ProgressDisplay progress("building", 0);
    const std::string file = path("work/database");
    const DatabaseBuildOptions build = {file, file + ".runs", {genomes}, k, GetParam(), true};
    Backing database = build_database(build, taxonomy, sequence_taxa, *system, team, progress);
    const DatabaseHeader header = read_database_header(*database.store());
    EXPECT_EQ(header.kmers, expected.lists.size());
    EXPECT_EQ(header.sequences, sequences.size());
    EXPECT_EQ(read_database_taxonomy(*database.store(), header).size(), 6U);
    const std::unique_ptr<MappedBytes> mapped = system->map(database, Access::read_only);
    DatabaseLookup<MappedWords> lookup(header, MappedWords(mapped->data()), "database");
    std::vector<TaxonCount> wanted;
    std::vector<TaxonCount> found;
    for (const auto& [text, list] : expected.lists) {
      for_each_kmer(text, k, [&](Kmer kmer) {
        EXPECT_TRUE(expected.find(kmer, wanted));
        EXPECT_TRUE(lookup.find(kmer, found)) << text;
        EXPECT_EQ(found, wanted) << text;
      });
    }
    for (int absent = 0; absent < 2000; ++absent) {
      const Kmer kmer = canonical_kmer(random() & kmer_mask(k), k);
      EXPECT_EQ(lookup.find(kmer, found), expected.lists.contains(kmer_text(kmer, k)));
    }
    EXPECT_EQ(left_behind(), std::vector<std::string>{"database"});
  }
}

INSTANTIATE_TEST_SUITE_P(Both, KmerBuildTest, testing::Values(IndexKind::two_level, IndexKind::hash),
                         [](const auto& parameter) {
                           return parameter.param == IndexKind::hash ? "hash" : "twolevel";
                         });

/// Says of every k-mer of some bases that all of so many taxa have it, once each.
class EveryonesLookup final : public KmerLookup {
 public:
  EveryonesLookup(const std::string& bases, std::uint32_t k, TaxonId taxa) : taxa_(taxa) {
    for_each_kmer(bases, k, [this](Kmer kmer) { kmers_.insert(kmer); });
  }
  std::uint64_t looked_at = 0;  ///< Elements of all lists that were asked for.
  const std::string& name() const noexcept override { return name_; }
  std::uint64_t kmers() const { return kmers_.size(); }
  bool find(Kmer kmer, std::vector<TaxonCount>& list) override {
    list.clear();
    for (TaxonId taxon = 1; kmers_.contains(kmer) && taxon <= taxa_; ++taxon) {
      list.push_back({taxon, 1});
    }
    looked_at += list.size();
    return !list.empty();
  }

 private:
  const std::string name_ = "everyone's lists";
  std::set<Kmer> kmers_;
  TaxonId taxa_;
};

// As strains of one species do: a table of all that they have would be many times the budget.
TEST_F(KmerFileTest, FewerKmersAreCheckedWhereManyTaxaHaveThem) {
  constexpr TaxonId taxa = 300;
  constexpr std::uint32_t k = 18;
  std::mt19937_64 random(8);
  const std::string bases = random_bases(random, 4000);
  SequenceTaxa sequence_taxa;
  std::string fasta;
  for (TaxonId taxon = 1; taxon <= taxa; ++taxon) {
    const std::string name = std::to_string(taxon);
    sequence_taxa[name] = taxon;
    fasta += ">" + name + "\n" + bases + "\n";
  }
  EveryonesLookup lookup(bases, k, taxa);
  DatabaseHeader header;
  header.k = k;
  header.kmers = lookup.kmers();
  header.list_words = 1 + lookup.kmers() * taxa;
  DatabaseCheck check(header, open_store("memory:64KiB", OpenMode::read_write));
  ProgressDisplay progress("checking", 0);
  EXPECT_EQ(check.compare_with_genomes({write_file("genomes", fasta)}, sequence_taxa, lookup, progress), "");
  EXPECT_GT(header.list_words, DatabaseCheck::most_list_elements * 3 / 2);
  EXPECT_GT(lookup.looked_at, DatabaseCheck::most_list_elements / 2);
  EXPECT_LT(lookup.looked_at, DatabaseCheck::most_list_elements * 3 / 2);
}

TEST_F(KmerFileTest, LongReadsAreCheckedToo) {
  std::mt19937_64 random(9);
  const std::string read = ">1\n" + random_bases(random, 20'000) + "\n";
  const std::string genomes = write_file("genomes", read);
  const Taxonomy taxonomy = read_taxonomy(write_file("taxonomy", "1\t1\troot\n"));
  WorkloadOptions options;
  options.system = System::memory;
  options.budget_bytes = std::uint64_t{256} << 10U;
  const std::unique_ptr<MemorySystem> system = MemorySystem::make(options);
  ThreadTeam team(2);
  ProgressDisplay progress("building", 0);
  const DatabaseBuildOptions build = {"memory:1MiB", path("work/runs"), {genomes}, 18, IndexKind::two_level, true};
  const Backing database = build_database(build, taxonomy, {{"1", 1}}, *system, team, progress);
  const DatabaseHeader header = read_database_header(*database.store());
  const std::unique_ptr<MappedBytes> mapped = system->map(database, Access::read_only);
  DatabaseLookup<MappedWords> right(header, MappedWords(mapped->data()), "database");
  TextLookup wrong(18);  // Has nothing.
  DatabaseCheck check(header, database.store());
  const std::vector<std::string> reads = {genomes};
  const auto check_of = [&](KmerLookup& lookup) {
    std::vector<ReadSample> samples;
    OrderedOutput no_output("");
    classify_reads({reads, taxonomy, 18, 50}, lookup, team, no_output, progress, samples);
    return check.compare_with_store(samples, taxonomy, lookup);
  };
  EXPECT_EQ(check_of(right), "");
  EXPECT_NE(check_of(wrong), "");
}

// Of reads that all got the root none got another's taxon.
TEST(ReadTotalsTest, ReadsThatGotNothingAreNotRight) {
  ReadTotals totals;
  totals.reads = totals.told = 2000;
  totals.right = 1990;
  EXPECT_EQ(judge_accuracy(totals), "");
  totals.right = 0;
  EXPECT_NE(judge_accuracy(totals), "");
  totals.above = 2000;
  EXPECT_NE(judge_accuracy(totals), "");
  totals.reads = totals.told = totals.above = 2;
  EXPECT_EQ(judge_accuracy(totals), "");
}

TEST(GenomeGeneratorTest, EveryNumberOfOrganismsMakesATree) {
  for (std::uint32_t organisms = 1; organisms < 200; ++organisms) {
    GeneratorOptions options;
    options.organisms = organisms;
    const GenomeGenerator generator(options);
    std::set<std::uint32_t> parents;
    for (std::uint32_t node = 1; node < generator.nodes(); ++node) {
      EXPECT_LT(GenomeGenerator::parent(node), node);
      parents.insert(GenomeGenerator::parent(node));
    }
    // The organisms are those that are nobody's parent.
    EXPECT_EQ(parents.size(), generator.first_organism());
    EXPECT_EQ(generator.nodes() - generator.first_organism(), organisms);
  }
}

}  // namespace
}  // namespace tiermap::test
