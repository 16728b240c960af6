#include "random-io/access_sequence.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <utility>

#include "config/size.hpp"
#include "parallel/permutation.hpp"
#include "parallel/random.hpp"
#include "parallel/zipfian.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t write_salt = 0x77;
constexpr std::uint64_t rank_salt = 0x72;

class GeneratedSequence : public AccessSequence {
 public:
  GeneratedSequence(BlockRange range, const SequenceOptions& options) : range_(range), options_(options) {}
  std::uint64_t size() const noexcept override { return options_.accesses; }
  BlockAccess at(std::uint64_t index) const noexcept override {
    const bool write = random_word(options_.seed ^ write_salt, index) % 100 < options_.write_percent;
    return {range_.first + block_at(index), write};
  }

 protected:
  const BlockRange& range() const noexcept { return range_; }
  std::uint64_t seed() const noexcept { return options_.seed; }

 private:
  virtual std::uint64_t block_at(std::uint64_t index) const noexcept = 0;

  BlockRange range_;
  SequenceOptions options_;
};

class UniformSequence final : public GeneratedSequence {
  using GeneratedSequence::GeneratedSequence;
  std::uint64_t block_at(std::uint64_t index) const noexcept override {
    const std::uint64_t round = index / range().count;
    return Permutation(range().count, random_word(seed(), round)).at(index % range().count);
  }
};

class ZipfianSequence final : public GeneratedSequence {
 public:
  ZipfianSequence(BlockRange range, double skew, const SequenceOptions& options)
      : GeneratedSequence(range, options), scattered_(range.count, seed()), ranks_(range.count, skew) {}

 private:
  std::uint64_t block_at(std::uint64_t index) const noexcept override {
    return scattered_.at(ranks_.rank_of(unit_number(random_word(seed() ^ rank_salt, index))));
  }

  Permutation scattered_;
  Zipfian ranks_;
};

class RecordedSequence final : public AccessSequence {
 public:
  explicit RecordedSequence(std::vector<BlockAccess> accesses) : accesses_(std::move(accesses)) {}
  std::uint64_t size() const noexcept override { return accesses_.size(); }
  BlockAccess at(std::uint64_t index) const noexcept override { return accesses_[index]; }

 private:
  std::vector<BlockAccess> accesses_;
};

/// False if the line is no access.
bool parse_access(const std::string& line, BlockAccess& access) {
  if (line.size() < 3 || (line[0] != 'r' && line[0] != 'w') || line[1] != ' ') {
    return false;
  }
  access.write = line[0] == 'w';
  const char* const end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data() + 2, end, access.block);
  return error == std::errc{} && rest == end;
}

}  // namespace

std::unique_ptr<AccessSequence> uniform_sequence(BlockRange range, const SequenceOptions& options) {
  return std::make_unique<UniformSequence>(range, options);
}

std::unique_ptr<AccessSequence> zipfian_sequence(BlockRange range, double skew, const SequenceOptions& options) {
  return std::make_unique<ZipfianSequence>(range, skew, options);
}

std::vector<BlockAccess> read_trace(const std::string& path, std::uint64_t blocks) {
  // Opening a FIFO would wait until somebody writes.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw OptionError(fmt::format("{} cannot be read ({}): name a file with lines such as 'r 12'", path,
                                  error ? error.message() : "it is no plain file"));
  }
  std::ifstream file(path);
  std::string line;
  std::vector<BlockAccess> accesses;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    BlockAccess access{};
    if (!parse_access(line, access)) {
      throw OptionError(fmt::format("{}, line {}: {} is no access: write r or w, a space, and a block's number", path,
                                    number, quote_value(line)));
    }
    if (access.block >= blocks) {
      throw OptionError(fmt::format("{}, line {}: there is no block {}, the file has {}: give more --bytes", path,
                                    number, access.block, blocks));
    }
    accesses.push_back(access);
  }
  if (accesses.empty() || file.bad()) {
    throw OptionError(path + " holds no access, or cannot be read: name a file with lines such as 'r 12'");
  }
  return accesses;
}

std::unique_ptr<AccessSequence> recorded_sequence(BlockRange range, const std::vector<BlockAccess>& trace) {
  std::vector<BlockAccess> accesses;
  for (const BlockAccess& access : trace) {
    if (access.block >= range.first && access.block - range.first < range.count) {
      accesses.push_back(access);
    }
  }
  return std::make_unique<RecordedSequence>(std::move(accesses));
}

}  // namespace tiermap
