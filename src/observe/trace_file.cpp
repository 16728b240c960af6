#include "observe/trace_file.hpp"

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_page_bytes = 4096;
constexpr std::uint64_t most_page_bytes = 64 << 20;

// Opening a FIFO would wait until somebody writes.
std::ifstream open_plain_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw OptionError(path + " is no plain file: name a file that TIERMAP_TRACE made");
  }
  return std::ifstream(path, std::ios::binary);
}

}  // namespace

TraceReader::TraceReader(const std::string& path) : file_(open_plain_file(path)), input_(file_), name_(path) {
  if (!file_) {
    throw OptionError(path + " cannot be opened: " + std::strerror(errno) + ": name a file that TIERMAP_TRACE made");
  }
  read_header();
}

TraceReader::TraceReader(std::istream& input, std::string name) : input_(input), name_(std::move(name)) {
  read_header();
}

void TraceReader::refuse(const std::string& problem) const {
  throw OptionError(name_ + ", byte " + std::to_string(position_) + ": " + problem + ": record the trace again");
}

/// False at the end of the file.
bool TraceReader::read(void* data, std::size_t bytes) {
  input_.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
  const auto got = static_cast<std::size_t>(input_.gcount());
  if (got != 0 && got != bytes) {
    refuse("the trace is cut off in the middle of a record");
  }
  if (got == 0) {
    return false;
  }
  position_ += bytes;
  return true;
}

void TraceReader::read_header() {
  input_.read(reinterpret_cast<char*>(&header_), sizeof header_);
  if (static_cast<std::size_t>(input_.gcount()) != sizeof header_ || header_.magic != TraceHeader::magic_value) {
    throw OptionError(name_ + " is no trace: name a file that TIERMAP_TRACE made on a machine of this byte order");
  }
  if (header_.version != TraceHeader::version_value || header_.header_bytes != sizeof header_) {
    throw OptionError(name_ + " is a trace of version " + std::to_string(header_.version) +
                      ", and this program reads version " + std::to_string(TraceHeader::version_value) +
                      ": use the Tiermap that recorded it");
  }
  position_ = sizeof header_;
}

/// False if the file ends first.
bool TraceReader::read_region(const TraceRecord& record) {
  if (record.page != trace_region_words) {
    refuse("a region is described by " + std::to_string(record.page) + " words, not " +
           std::to_string(trace_region_words));
  }
  // A full disk takes words, and not always all that describe a region.
  std::array<std::uint64_t, trace_region_words> words{};
  for (std::uint64_t& word : words) {
    if (!read(&word, sizeof word)) {
      return false;
    }
  }
  auto region = std::bit_cast<TraceRegion>(words);
  if (region.page_bytes < least_page_bytes || region.page_bytes > most_page_bytes ||
      !std::has_single_bit(region.page_bytes)) {
    refuse("region " + std::to_string(record.region) + " has pages of " + std::to_string(region.page_bytes) +
           " bytes, which is no page size");
  }
  region.name.back() = '\0';
  std::uint32_t first = record.region;
  if (record.write) {
    const auto before = regions_.find(record.region - 1);
    if (before == regions_.end()) {
      refuse("region " + std::to_string(record.region) + " has the bytes of one that was not described");
    }
    first = before->second.first_of_same_bytes;
  }
  if (!regions_.emplace(record.region, Described{region, first}).second) {
    refuse("region " + std::to_string(record.region) + " is described twice");
  }
  return true;
}

std::optional<TraceRecord> TraceReader::next() {
  std::uint64_t word = 0;
  if (!read(&word, sizeof word)) {
    return std::nullopt;
  }
  if (complete_) {
    refuse("something follows the end of the trace");
  }
  if (word >> 60U > TraceRecord::last_kind) {
    refuse("records of kind " + std::to_string(word >> 60U) + " are unknown");
  }
  const TraceRecord record = TraceRecord::from(word);
  if (record.kind == TraceKind::region) {
    if (!read_region(record)) {
      return std::nullopt;
    }
  } else if (record.kind == TraceKind::end) {
    complete_ = true;
  } else if (record.kind != TraceKind::lost && !regions_.contains(record.region)) {
    refuse("region " + std::to_string(record.region) + " was not described");
  }
  return record;
}

const TraceRegion& TraceReader::region(std::uint32_t number) const {
  return regions_.at(number).region;
}

std::uint32_t TraceReader::first_of_same_bytes(std::uint32_t number) const {
  return regions_.at(number).first_of_same_bytes;
}

}  // namespace tiermap
