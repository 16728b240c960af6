#include "random-io/access_sequence.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "command_line/text_input.hpp"
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
  constexpr std::size_t longest_line = 4096;
  TextInput input(path, "a file with lines such as 'r 12'");
  std::string line;
  std::vector<BlockAccess> accesses;
  while (input.peek() >= 0) {
    const std::uint64_t number = input.line();
    line.clear();
    if (!input.take(line, longest_line)) {
      input.refuse(number,
                   fmt::format("the line has no end within {} bytes: this is no list of accesses", longest_line));
    }
    if (line.empty() || line[0] == '#') {
      continue;
    }
    BlockAccess access{};
    if (!parse_access(line, access)) {
      input.refuse(number, quote_value(line) + " is no access: write r or w, a space, and a block's number");
    }
    if (access.block >= blocks) {
      input.refuse(number,
                   fmt::format("there is no block {}, the file has {}: give more --bytes", access.block, blocks));
    }
    accesses.push_back(access);
  }
  if (accesses.empty()) {
    throw OptionError(path + " holds no access: name a file with lines such as 'r 12'");
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
