#include "ycsb/pool_file.hpp"

#include <fmt/format.h>

#include <cstring>
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
  Backing backing = Backing::create_unfinished(url, header.file_bytes);
  const std::string log_path = backing.final_path() + ".log";
  refuse_left_behind(log_path);
  AlignedBuffer buffer(PoolHeader::bytes);
  std::memset(buffer.data(), 0, PoolHeader::bytes);
  std::memcpy(buffer.data(), &header, sizeof(header));
  write_fully(*backing.store(), buffer.data(), PoolHeader::bytes, 0);
  make_durable(*backing.store());
  std::unique_ptr<RedoLog> log =
      make_uninterrupted(log_path, [&] { return RedoLog::create(log_path, header.identity, durability); });
  MadePath made_log(log_path);
  // The name comes last: a file that has it is a pool, and has a log.
  backing.finish();
  sync_folder_of(backing.plain_path());
  std::unique_ptr<PoolFile> pool(new PoolFile(std::move(backing), header));
  pool->log_ = std::move(log);
  pool->made_log_ = std::move(made_log);
  return pool;
}

std::unique_ptr<PoolFile> PoolFile::open(const std::string& url, Durability durability) {
  Backing backing = Backing::open(url, true);
  const PoolHeader header = read_pool_header(*backing.store());
  std::unique_ptr<PoolFile> pool(new PoolFile(std::move(backing), header));
  pool->log_ = RedoLog::open(pool->log_path_, header.identity, durability);
  return pool;
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

void PoolFile::keep() {
  backing_.keep();
  made_log_.keep();
}

}  // namespace tiermap
