#include "tiermap/serialized_transaction.hpp"

#include <string>

#include "tiermap/error.hpp"
#include "vector/pattern_accesses.hpp"

namespace tiermap {
namespace {

/// A transaction's access touches one page, a record may lie in several: it counts as so many accesses, of which the
/// first ones touch a page each, and all others the last page.
constexpr std::uint64_t parts_of_an_access = 1 << 20;
/// Elements that are asked for at once.
constexpr std::uint64_t most_asked_for = 256;
/// Of the budget, for what is ahead in the index.
constexpr std::uint64_t index_share = 8;

std::uint64_t budget_of(VectorStorage& vector) {
  return vector.region() ? vector.region().statistics().budget_bytes : 0;
}

std::uint64_t index_window(const SerializedStorage& vector, const TransactionOptions& options) {
  const std::uint64_t index_bytes = std::max(vector.index.size() * vector.index.element_bytes(), std::uint64_t{1});
  const std::uint64_t sharers = 1 + vector.index.transactions()->count();  // Whose windows are said, too.
  const std::uint64_t share =
      options.window_bytes != 0 ? options.window_bytes / 4 : budget_of(vector.index) / index_share;
  return std::max<std::uint64_t>(std::min(share / sharers, index_bytes), 1);
}

std::uint64_t parts_in(std::uint64_t accesses, const VectorStorage& vector) {
  if (accesses > UINT64_MAX / parts_of_an_access) {
    throw OptionError("a transaction on vector " + vector.url() + " cannot have " + std::to_string(accesses) +
                      " accesses: choose at most " + std::to_string(UINT64_MAX / parts_of_an_access));
  }
  return accesses * parts_of_an_access;
}

/// So many runs at most.
class RunList {
 public:
  RunList(std::vector<PageAccesses>& runs, std::uint64_t count) : runs_(runs), end_(runs.size() + count) {}
  /// False if there is no room for it.
  bool add(std::uint64_t page, std::uint64_t accesses) {
    if (added_ && runs_.back().page == page) {
      runs_.back().accesses += accesses;
      return true;
    }
    if (runs_.size() >= end_) {
      return false;
    }
    runs_.push_back({page, accesses});
    added_ = true;
    return true;
  }
  /// The page of the last one, so that what touches none needs no other.
  std::uint64_t last_page() const { return added_ ? runs_.back().page : 0; }

 private:
  std::vector<PageAccesses>& runs_;
  const std::uint64_t end_;
  bool added_ = false;
};

class IndexPages final : public Transaction {
 public:
  IndexPages(const SerializedTransaction& accesses, VectorStorage& index, Intent intent, std::uint64_t length,
             const TransactionOptions& options)
      : Transaction(index, intent, length, options), accesses_(accesses) {}

  void pages(std::uint64_t position, std::uint64_t count, std::vector<PageAccesses>& runs) const override {
    RunList list(runs, count);
    for (std::vector<std::uint64_t> elements; position < length(); position += elements.size()) {
      elements.clear();
      accesses_.elements(position, std::min(most_asked_for, length() - position), elements);
      if (elements.empty() ||
          !std::ranges::all_of(elements, [&](std::uint64_t element) { return list.add(page_of(element), 1); })) {
        return;
      }
    }
  }

 private:
  const SerializedTransaction& accesses_;
};

class RecordPages final : public Transaction {
 public:
  RecordPages(const SerializedTransaction& accesses, const SerializedStorage& vector, Intent intent,
              std::uint64_t length, const TransactionOptions& options)
      : Transaction(vector.records, intent, length, options), accesses_(accesses), index_(vector.index) {}

  void pages(std::uint64_t position, std::uint64_t count, std::vector<PageAccesses>& runs) const override {
    RunList list(runs, count);
    const std::uint64_t accesses = length() / parts_of_an_access;
    std::uint64_t part = position % parts_of_an_access;
    std::vector<std::uint64_t> elements;
    for (std::uint64_t access = position / parts_of_an_access; access < accesses; access += elements.size()) {
      elements.clear();
      accesses_.elements(access, std::min(most_asked_for, accesses - access), elements);
      if (elements.empty() || !std::ranges::all_of(elements, [&](std::uint64_t element) {
            return add_record(list, place_of(element), std::exchange(part, 0));
          })) {
        return;
      }
    }
  }

 private:
  /// Of a class that counts wrongly, nowhere.
  RecordPlace place_of(std::uint64_t element) const {
    return element < index_.size() ? reinterpret_cast<const RecordPlace*>(index_.data())[element] : RecordPlace{};
  }
  bool add_record(RunList& list, const RecordPlace& place, std::uint64_t part) const {
    if (place.bytes == 0) {
      return list.add(list.last_page(), parts_of_an_access - part);
    }
    const std::uint64_t first = page_of(place.offset);
    const std::uint64_t last = page_of(place.offset + place.bytes - 1);
    while (part < parts_of_an_access) {
      const std::uint64_t page = std::min(first + part, last);
      const std::uint64_t parts = page == last ? parts_of_an_access - part : 1;
      if (!list.add(page, parts)) {
        return false;
      }
      part += parts;
    }
    return true;
  }

  const SerializedTransaction& accesses_;
  VectorStorage& index_;
};

/// Those of a class that says which one each access is to.
template <typename Accesses>
void append_elements(const Accesses& accesses, std::uint64_t position, std::uint64_t count,
                     std::vector<std::uint64_t>& elements) {
  for (const std::uint64_t end = position + std::min(count, accesses.length() - position); position < end; ++position) {
    elements.push_back(accesses.element(position));
  }
}

TransactionOptions with_window(TransactionOptions options, std::uint64_t bytes) {
  options.window_bytes = bytes;
  return options;
}

}  // namespace

SerializedTransaction::SerializedTransaction(const SerializedStorage& vector, Intent intent, std::uint64_t length,
                                             const TransactionOptions& options)
    : index_(std::make_unique<IndexPages>(*this, vector.index, intent, length,
                                          with_window(options, index_window(vector, options)))),
      records_(std::make_unique<RecordPages>(*this, vector, intent, parts_in(length, vector.records), options)) {}

SerializedTransaction::~SerializedTransaction() = default;

std::uint64_t SerializedTransaction::length() const noexcept {
  return index_->length();
}

std::uint64_t SerializedTransaction::position() const noexcept {
  return index_->position();
}

void SerializedTransaction::advance(std::uint64_t accesses) {
  const std::uint64_t made = std::min(accesses, length() - position());
  index_->advance(made);
  records_->advance(made * parts_of_an_access);
}

// The index first: the records' turn reads in it.
std::uint64_t SerializedTransaction::until_turn() {
  const std::uint64_t of_index = index_->until_turn();
  const std::uint64_t parts = records_->until_turn();
  return std::min(of_index, parts / parts_of_an_access + (parts % parts_of_an_access != 0 ? 1 : 0));
}

void SerializedTransaction::touches_until(std::uint64_t element) noexcept {
  index_->touches_until(element);
}

void SerializedTransaction::commit() {
  records_->commit();
  index_->commit();
}

TransactionStatistics SerializedTransaction::statistics() const noexcept {
  TransactionStatistics both = records_->statistics();
  const TransactionStatistics of_index = index_->statistics();
  both.pages += of_index.pages;
  both.in_time += of_index.in_time;
  return both;
}

StridedElements::StridedElements(const SerializedStorage& vector, Intent intent, Strided pattern,
                                 const TransactionOptions& options)
    : SerializedTransaction(vector, intent, accesses_of(vector.index, pattern), options),
      first_(pattern.range.first),
      stride_(pattern.stride) {
  touches_until(end_of(pattern));
}

void StridedElements::elements(std::uint64_t position, std::uint64_t count,
                               std::vector<std::uint64_t>& elements) const {
  append_elements(*this, position, count, elements);
}

RandomElements::RandomElements(const SerializedStorage& vector, Intent intent, Random pattern,
                               const TransactionOptions& options)
    : SerializedTransaction(vector, intent, accesses_of(vector.index, pattern), options), pattern_(pattern) {
  touches_until(pattern.range.first + pattern.range.count);
}

void RandomElements::elements(std::uint64_t position, std::uint64_t count, std::vector<std::uint64_t>& elements) const {
  append_elements(*this, position, count, elements);
}

}  // namespace tiermap
