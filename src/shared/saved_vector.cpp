// A shared vector, copied to and from a store by rank 0, or the lowest rank that was not lost.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/size.hpp"
#include "shared/shared_implementation.hpp"
#include "store/file_open.hpp"
#include "store/registry.hpp"
#include "tiermap/error.hpp"
#include "tiermap/store.hpp"
#include "vector/element_check.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t piece_bytes = 4 << 20;

[[noreturn]] void refuse(int error_number, const std::string& url, const std::string& what) {
  throw StoreError(error_number, "store '" + url + "' " + what + ": " + error_text(error_number));
}

void write_all(Store& store, const std::string& url, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const std::int64_t put = store.write(bytes.data(), bytes.size(), offset);
    if (put <= 0) {
      refuse(put < 0 ? static_cast<int>(-put) : ENOSPC, url, "cannot be written");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

void read_all(Store& store, const std::string& url, std::span<std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const std::int64_t got = store.read(bytes.data(), bytes.size(), offset);
    if (got <= 0) {
      refuse(got < 0 ? static_cast<int>(-got) : EIO, url, "cannot be read");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void require_size(const Store& store, const std::string& url, std::uint64_t bytes) {
  if (store.size_bytes() != bytes) {
    throw StoreError(EINVAL, "store '" + url + "' has " + format_size(store.size_bytes()) + ", and the vector " +
                                 format_size(bytes) + ": name one that is as long");
  }
}

/// What `copy` throws, for all ranks: its number, and what it says; "" if nothing.
std::string failure_of(const std::function<void()>& copy) {
  try {
    copy();
    return "";
  } catch (const Error& error) {
    return std::to_string(error.code().value()) + " " + error.what();
  } catch (const std::exception& error) {
    return std::to_string(EIO) + " " + error.what();
  }
}

std::pair<int, std::string> read_failure(const std::string& failure) {
  int error_number = EIO;
  const char* const end = failure.data() + failure.size();
  const char* const after = std::from_chars(failure.data(), end, error_number).ptr;
  return {error_number, {std::min(after + 1, end), end}};
}

}  // namespace

void SharedImplementation::copy_by_first(const std::string& doing, const std::function<void()>& copy) {
  JobClient& client = job_->client();
  client.collective("begins to " + doing);
  const std::uint32_t first = client.first_rank();
  const std::vector<std::string> told = client.texts_of_all(job_->place().rank == first ? failure_of(copy) : "");
  if (client.is_lost(first)) {
    throw StoreError(EOWNERDEAD, "job " + quote_value(job_->place().name) + ": rank " + std::to_string(first) +
                                     " was lost, which was to " + doing +
                                     ": any part of it may be done: do it again, and save elsewhere");
  }
  if (!told[first].empty()) {
    const auto [error_number, why] = read_failure(told[first]);
    throw StoreError(error_number, "job " + quote_value(job_->place().name) + ": rank " + std::to_string(first) +
                                       " cannot " + doing + ": " + why);
  }
}

void SharedImplementation::save(const std::string& url) {
  write_home();
  copy_by_first("save vector " + quote_value(name_), [&] {
    const std::string holder = "store '" + url + "'";
    const std::string remedy = "save the vector elsewhere";
    const NewStore made{whole_bytes(),
                        [&](const ElementLayout& there) { require_elements(holder, elements_, there, remedy); }};
    const std::unique_ptr<Store> store = open_store(url, OpenMode::open_or_create, made);
    require_elements(holder, elements_, store->element_layout(), remedy);
    require_size(*store, url, whole_bytes());
    std::vector<std::byte> piece(std::min(piece_bytes, whole_bytes()));
    for (std::uint64_t at = 0; at < whole_bytes(); at += piece.size()) {
      const std::span<std::byte> here =
          std::span(piece).first(std::min<std::uint64_t>(piece.size(), whole_bytes() - at));
      if (const int result = home_->fetch(here, at); result != 0) {
        refuse(-result, url, "does not get what is at home (" + home_->failure() + ")");
      }
      write_all(*store, url, here, at);
    }
    if (const int result = store->flush(); result != 0) {
      refuse(-result, url, "cannot be made durable");
    }
  });
}

void SharedImplementation::load(const std::string& url) {
  require_writable();
  write_home();
  try {
    copy_by_first("load vector " + quote_value(name_), [&] { bring_home(url); });
  } catch (const Error&) {
    // What had come home before is no news to who brought it.
    try {
      take_loaded();
    } catch (const Error&) {  // Who touches a page then is told.
    }
    throw;
  }
  take_loaded();
}

void SharedImplementation::bring_home(const std::string& url) {
  const std::unique_ptr<Store> store = open_store(url, OpenMode::read_only);
  require_elements("store '" + url + "'", elements_, store->element_layout(), "load it into a vector of what it holds");
  require_size(*store, url, whole_bytes());
  std::vector<std::byte> piece(std::min(piece_bytes, whole_bytes()));
  ChangeSender sender(*home_);
  for (std::uint64_t at = 0; at < whole_bytes(); at += piece.size()) {
    const std::span<std::byte> here = std::span(piece).first(std::min<std::uint64_t>(piece.size(), whole_bytes() - at));
    read_all(*store, url, here, at);
    sender.add(at, here);
  }
  if (const int result = sender.finish(); result != 0) {
    refuse(-result, url, "cannot be brought home (" + home_->failure() + ")");
  }
}

/// From here on this rank knows what has changed, and takes nothing older from another one.
void SharedImplementation::take_loaded() {
  acquire_news();
  drop({0, whole_bytes()});
}

}  // namespace tiermap
