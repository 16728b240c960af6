#include "random-forest/forest_file.hpp"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "command_line/backing.hpp"
#include "parallel/random.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t forest_magic = 0x54534f4652454954U;  // "TIERFOST", the lowest byte first.
constexpr std::uint32_t forest_version = 1;

struct ForestHeader {
  std::uint64_t magic = forest_magic;
  std::uint32_t version = forest_version;
  std::uint32_t features = 0;
  std::uint32_t classes = 0;
  std::uint32_t trees = 0;
};

std::uint64_t checksum_of(const std::string& bytes) {
  std::uint64_t sum = bytes.size();
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    sum = mix_word(sum ^ word);
  }
  return sum;
}

template <typename Value>
void put(std::string& bytes, const Value& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Takes values from the front; throws StoreError where there are no more.
class ForestBytes {
 public:
  ForestBytes(const std::string& bytes, const std::string& path) : bytes_(bytes), path_(path) {}
  template <typename Value>
  Value take() {
    if (bytes_.size() - at_ < sizeof(Value)) {
      refuse("was cut off");
    }
    Value value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }
  std::size_t left() const noexcept { return bytes_.size() - at_; }
  [[noreturn]] void refuse(const std::string& why) const {
    throw StoreError(EINVAL, fmt::format("{}: the forest {}: train it again", path_, why));
  }

 private:
  const std::string& bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
};

DecisionTree take_tree(ForestBytes& bytes, const ForestHeader& header) {
  DecisionTree tree;
  const auto count = bytes.take<std::uint32_t>();
  if (count == 0 || count > bytes.left() / sizeof(TreeSplit)) {
    bytes.refuse("was cut off");
  }
  for (std::uint32_t index = 0; index < count; ++index) {
    const auto split = bytes.take<TreeSplit>();
    const bool leaf = split.feature == TreeSplit::leaf;
    const bool sound = leaf ? split.low < header.classes
                            : split.feature < header.features && split.low > index && split.high > index &&
                                  split.low < count && split.high < count;
    if (!sound) {
      bytes.refuse(fmt::format("is damaged at split {} of a tree", index));
    }
    tree.splits.push_back(split);
  }
  return tree;
}

}  // namespace

void save_forest(const Forest& forest, const std::string& path) {
  std::string bytes;
  put(bytes, ForestHeader{forest_magic, forest_version, forest.features, forest.classes,
                          static_cast<std::uint32_t>(forest.trees.size())});
  for (const DecisionTree& tree : forest.trees) {
    put(bytes, static_cast<std::uint32_t>(tree.splits.size()));
    for (const TreeSplit& split : tree.splits) {
      put(bytes, split);
    }
  }
  put(bytes, checksum_of(bytes));
  Backing file = Backing::create(path, bytes.size());
  write_fully(*file.store(), bytes.data(), bytes.size(), 0);
  file.make_cold();
  file.keep();
}

Forest load_forest(const std::string& path) {
  const Backing file = Backing::open(path, false);
  std::string bytes(file.size_bytes(), '\0');
  read_fully(*file.store(), bytes.data(), bytes.size(), 0);
  ForestBytes left(bytes, path);
  if (bytes.size() < sizeof(ForestHeader) || left.take<std::uint64_t>() != forest_magic) {
    throw StoreError(EINVAL, path + " is no forest: name one that `tiermap-random-forest --forest` made");
  }
  ForestBytes whole(bytes, path);
  const auto header = whole.take<ForestHeader>();
  if (header.version != forest_version) {
    throw StoreError(EINVAL, fmt::format("{} is a forest of version {}, and {} is known here: use the program that "
                                         "made it, or train it again",
                                         path, header.version, forest_version));
  }
  const std::size_t summed = bytes.size() - std::min(bytes.size(), sizeof(std::uint64_t));
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes.data() + summed, sizeof(sum));
  if (sum != checksum_of(bytes.substr(0, summed))) {
    whole.refuse("was cut off, or has changed");
  }
  Forest forest{header.features, header.classes, {}};
  if (header.features == 0 || header.classes == 0 || header.trees == 0) {
    whole.refuse("has nothing in it");
  }
  for (std::uint32_t tree = 0; tree < header.trees; ++tree) {
    forest.trees.push_back(take_tree(whole, header));
  }
  return forest;
}

}  // namespace tiermap
