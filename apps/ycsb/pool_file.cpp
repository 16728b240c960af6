#include "ycsb/pool_file.hpp"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "command_line/interruption.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::uint64_t random_identity() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

void make_durable(Store& store) {
  if (const int result = store.flush(); result < 0) {
    throw StoreError(
        -result, fmt::format("{} cannot be made durable: {}", store.name(), std::generic_category().message(-result)));
  }
}

}  // namespace

PoolFile::PoolFile(Backing backing, const PoolHeader& header)
    : backing_(std::move(backing)),
      header_(header),
      layout_(header, backing_.url()),
      log_path_(backing_.plain_path() + ".log") {}

std::unique_ptr<PoolFile> PoolFile::create(const std::string& url, PoolHeader header, Durability durability) {
  header.identity = random_identity();
  header.file_bytes = PoolLayout(header).file_bytes();
  header.checksum = header.computed_checksum();
  std::unique_ptr<PoolFile> pool(new PoolFile(Backing::create(url, header.file_bytes), header));
  pool->log_ = make_uninterrupted(pool->log_path_,
                                  [&] { return RedoLog::create(pool->log_path_, header.identity, durability); });
  pool->made_log_path_ = pool->log_path_;
  // The header comes last: a file that has one has a log.
  AlignedBuffer buffer(PoolHeader::bytes);
  std::memset(buffer.data(), 0, PoolHeader::bytes);
  std::memcpy(buffer.data(), &header, sizeof(header));
  write_fully(*pool->backing_.store(), buffer.data(), PoolHeader::bytes, 0);
  make_durable(*pool->backing_.store());
  return pool;
}

std::unique_ptr<PoolFile> PoolFile::open(const std::string& url, Durability durability) {
  Backing backing = Backing::open(url, true);
  const PoolHeader header = read_pool_header(*backing.store());
  std::unique_ptr<PoolFile> pool(new PoolFile(std::move(backing), header));
  pool->log_ = RedoLog::open(pool->log_path_, header.identity, durability);
  return pool;
}

PoolFile::~PoolFile() {
  log_.reset();
  if (!made_log_path_.empty()) {
    std::error_code ignored;
    std::filesystem::remove(made_log_path_, ignored);
    keep_if_interrupted(made_log_path_);
  }
}

ReplayOutcome PoolFile::recover(MappedBytes& mapped) {
  const std::span<std::byte> bytes(mapped.data(), static_cast<std::size_t>(mapped.size()));
  const ReplayOutcome outcome = replay_log(log_->contents(), header_.identity, header_.file_bytes,
                                           [&](std::span<const std::byte> changes) { apply_changes(changes, bytes); });
  if (outcome.frames > 0) {
    mapped.save();
  }
  log_->empty();
  return outcome;
}

void PoolFile::keep() noexcept {
  backing_.keep();
  keep_if_interrupted(made_log_path_);
  made_log_path_.clear();
}

}  // namespace tiermap
