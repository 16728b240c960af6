#include "kmer/ordered_output.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "command_line/backing.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

OrderedOutput::OrderedOutput(std::string path) : path_(std::move(path)) {
  if (!is_wanted()) {
    return;
  }
  partial_path_ = path_ + ".partial";
  remove_if_interrupted(partial_path_);
  file_.open(partial_path_, std::ios::binary);
  if (!file_) {
    const int number = errno;
    keep_if_interrupted(partial_path_);
    throw StoreError(number, fmt::format("{} cannot be written ({}): name another --output", path_,
                                         std::generic_category().message(number)));
  }
}

OrderedOutput::~OrderedOutput() {
  if (!partial_path_.empty()) {
    std::error_code ignored;
    std::filesystem::remove(partial_path_, ignored);
    keep_if_interrupted(partial_path_);
  }
}

void OrderedOutput::add(std::uint64_t number, std::string text) {
  if (!is_wanted()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  waiting_.emplace(number, std::move(text));
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; first = waiting_.begin()) {
    file_ << first->second;
    waiting_.erase(first);
    ++next_;
  }
  check();
}

void OrderedOutput::check() {
  if (!file_) {
    const int number = errno == 0 ? EIO : errno;
    throw StoreError(number, fmt::format("{} cannot be written: {}", path_, std::generic_category().message(number)));
  }
}

void OrderedOutput::finish() {
  if (!is_wanted()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  file_.close();
  check();
  if (std::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    check();
    const int number = errno;
    throw StoreError(number, fmt::format("{} cannot be written ({}): name another --output", path_,
                                         std::generic_category().message(number)));
  }
  keep_if_interrupted(partial_path_);
  partial_path_.clear();
}

}  // namespace tiermap
