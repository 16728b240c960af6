#include "kmer/ordered_output.hpp"

#include <utility>

namespace tiermap {

OrderedOutput::OrderedOutput(const std::string& path) {
  if (!path.empty()) {
    file_.emplace(path);
  }
}

void OrderedOutput::add(std::uint64_t number, std::string text) {
  if (!is_wanted()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  waiting_.emplace(number, std::move(text));
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; first = waiting_.begin()) {
    file_->stream() << first->second;
    waiting_.erase(first);
    ++next_;
  }
  file_->check();
}

void OrderedOutput::finish() {
  if (!is_wanted()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  file_->close();
  file_->put_in_place();
}

}  // namespace tiermap
