#include "cluster/remote/remote_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <shared_mutex>
#include <utility>

#include "cluster/server/checked_store.hpp"
#include "config/size.hpp"
#include "platform/write_unless_closed.hpp"
#include "store/file_open.hpp"

namespace tiermap {
namespace {

/// Of one read or write of many pieces.
constexpr std::size_t most_pieces_in_flight = 32;

/// What says that the server itself is not to be counted on, and not that this request cannot be.
bool server_failed(int status) noexcept {
  return status == -ECONNRESET || status == -ETIMEDOUT || status == -EBADF || status == -EBADMSG;
}

}  // namespace

/// A piece on its way to each of its copies.
struct RemoteStore::WrittenPiece {
  struct Copy {
    std::uint32_t server;
    WireCall call;
  };
  std::uint64_t offset;
  std::uint64_t bytes;
  std::vector<Copy> copies;
};

RemoteStore::RemoteStore(std::unique_ptr<Wire> wire, std::vector<std::unique_ptr<RemoteDataSet>> parts,
                         const DataSetLayout& layout, const RemoteVersion& version, std::uint64_t bytes, bool writable,
                         std::string name)
    : wire_(std::move(wire)),
      parts_(std::move(parts)),
      layout_(layout),
      placement_(layout),
      scores_(placement_),
      writable_(writable),
      name_(std::move(name)),
      owner_(::getpid()),
      size_(bytes),
      version_(version) {
  for (const auto& part : parts_) {
    scores_.add_server(part == nullptr ? nullptr : part->score_sender(),
                       part == nullptr ? 0 : part->facts().read_nanoseconds);
  }
}

RemoteStore::~RemoteStore() = default;

void RemoteStore::lose(std::uint32_t server, int error_number) {
  const std::lock_guard lock(losing_);
  if (parts_[server] == nullptr || !parts_[server]->give_up(error_text(error_number)) || !writable_) {
    return;
  }
  // Before anything is said to be written without it: it must not be taken for up to date when it is back.
  renew_others(announce_next());
}

/// Returns how many have heard of it, which are all that are left where versions matter.
std::size_t RemoteStore::announce_next() {
  version_.announced = (version_.announced / RemoteVersion::step + 1) * RemoteVersion::step;
  std::size_t told = 0;
  for (const Answer& answer : ask_all(MemoryRequest::announce, version_.announced, 0)) {
    told += answer.status == 0 ? 1U : 0U;
    give_up_who_is_behind(answer, "it does not hear of a new version");
  }
  return told;
}

/// Whether it is given up for what it answered to a new version. Where there is one copy alone, none is behind another
/// for a message that was damaged.
bool RemoteStore::give_up_who_is_behind(const Answer& answer, const std::string& why) {
  const bool is_behind = answer.status != 0 && (answer.status != -EBADMSG || placement_.copies() > 1);
  if (is_behind) {
    parts_[answer.server]->give_up(why);
  }
  return is_behind;
}

/// Until all that are left have taken a new version, of which so many have been told. One that is given up here may
/// have done so, too, and is behind only once the others have a newer one.
void RemoteStore::renew_others(std::size_t told) {
  const bool striped = layout_.kind == DataSetLayout::Kind::striped;
  const std::size_t enough = striped ? layout_.servers - layout_.copies + 1 : layout_.copies;
  for (bool all_did = false; !all_did;) {
    if (told >= enough) {
      version_.content = version_.announced;
    } else if (striped) {
      return;  // What counts as written is on all its servers, and so few could not be read without the others.
    } else {
      ++version_.content;
    }
    all_did = true;
    for (const Answer& answer : ask_all(MemoryRequest::renew, version_.content, 0)) {
      all_did = !give_up_who_is_behind(answer, "it does not take a new version") && all_did;
    }
    told = all_did ? told : announce_next();
  }
}

/// For what a server was left out of that is given up at this moment: it is done once the others know of that.
void RemoteStore::await_losing() {
  const std::lock_guard lock(losing_);
}

RemoteStore::Piece RemoteStore::next_piece(std::uint64_t offset, std::span<std::byte> left) const noexcept {
  constexpr std::uint64_t most = 256 << 10;
  return {offset, left.first(placement_.run(offset, std::min<std::uint64_t>(left.size(), most)))};
}

RemoteDataSet* RemoteStore::readable_part(const Piece& piece, std::uint32_t& copy) const noexcept {
  for (std::uint32_t tried = 0; tried < placement_.copies(); ++tried, copy = (copy + 1) % placement_.copies()) {
    RemoteDataSet* const part = parts_[placement_.server(piece.offset, copy)].get();
    if (part != nullptr && part->usable()) {
      return part;
    }
  }
  return nullptr;
}

int RemoteStore::finish_read(const Piece& piece, WireCall& call, std::uint32_t copy) {
  const WireReply& reply = call.wait();
  if (reply.status == 0 && reply.body.bytes().size() == piece.bytes.size()) {
    std::memcpy(piece.bytes.data(), reply.body.bytes().data(), piece.bytes.size());
    return 0;
  }
  if (reply.status == -damaged_error) {
    mend(piece);
    const int result = read_elsewhere(piece);
    if (result != 0) {
      tell_damage(placement_.server(piece.offset, copy), reply);
    }
    return result;
  }
  if (reply.status != -EBADMSG && server_failed(reply.status)) {
    lose(placement_.server(piece.offset, copy), -reply.status);
  }
  return read_elsewhere(piece);
}

/// Once: of the first server that should have had it.
void RemoteStore::tell_lost(const Piece& piece) {
  for (std::uint32_t copy = 0; copy < placement_.copies(); ++copy) {
    const RemoteDataSet* const part = parts_[placement_.server(piece.offset, copy)].get();
    if (part != nullptr && !part->usable() && !told_lost_.exchange(true)) {
      tell_unless_closed("tiermap: store '" + name_ + "': server " + quote_value(part->server()) + " " +
                         part->failure() +
                         ": see whether it runs, and open the store again (a server that runs takes a process for dead "
                         "that was silent for longer than its timeout_seconds, as one that was stopped)\n");
    }
  }
}

/// Who touches a page hears of it as a signal, and has no other way to learn why.
void RemoteStore::tell_damage(std::uint32_t server, const WireReply& reply) {
  constexpr std::uint32_t most_lines = 16;
  if (told_.fetch_add(1) < most_lines) {
    tell_unless_closed("tiermap: store '" + name_ + "': server " + quote_value(parts_[server]->server()) + ": " +
                       reply.body.text() + "\n");
  }
}

/// From one copy after the other; from the same one if there is no other, which helps against what was damaged once.
int RemoteStore::read_elsewhere(const Piece& piece) {
  std::uint32_t copy = 0;
  for (std::uint32_t tried = 0; tried < placement_.copies(); ++tried, ++copy) {
    RemoteDataSet* const part = parts_[placement_.server(piece.offset, copy)].get();
    if (part == nullptr || !part->usable()) {
      continue;
    }
    WireCall call = part->start_read(placement_.local_offset(piece.offset, copy), piece.bytes.size());
    const WireReply& reply = call.wait();
    if (reply.status == 0 && reply.body.bytes().size() == piece.bytes.size()) {
      std::memcpy(piece.bytes.data(), reply.body.bytes().data(), piece.bytes.size());
      return 0;
    }
    if (server_failed(reply.status)) {
      lose(placement_.server(piece.offset, copy), -reply.status);
    }
  }
  tell_lost(piece);
  return -EIO;
}

std::int64_t RemoteStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (in_child()) {
    return -EIO;
  }
  const std::uint64_t size = size_bytes();
  if (offset >= size) {
    return 0;
  }
  const std::uint64_t take = std::min<std::uint64_t>(bytes, size - offset);
  std::span<std::byte> left(static_cast<std::byte*>(buffer), take);
  struct Asked {
    Piece piece;
    std::uint32_t copy;
    WireCall call;
  };
  std::deque<Asked> asked;
  int result = 0;
  const auto finish_first = [&] {
    const int one = finish_read(asked.front().piece, asked.front().call, asked.front().copy);
    result = result == 0 ? one : result;
    asked.pop_front();
  };
  while (!left.empty() && result == 0) {
    const Piece piece = next_piece(offset, left);
    left = left.subspan(piece.bytes.size());
    offset += piece.bytes.size();
    std::uint32_t copy = placement_.copies() == 1 ? 0 : turn_.fetch_add(1) % placement_.copies();
    RemoteDataSet* const part = readable_part(piece, copy);
    if (part == nullptr) {
      tell_lost(piece);
      result = -EIO;
      break;
    }
    asked.push_back({piece, copy, part->start_read(placement_.local_offset(piece.offset, copy), piece.bytes.size())});
    if (asked.size() >= most_pieces_in_flight) {
      finish_first();
    }
  }
  while (!asked.empty()) {
    finish_first();
  }
  return result == 0 ? static_cast<std::int64_t>(take) : result;
}

int RemoteStore::finish_write(WrittenPiece& piece, std::vector<Behind>& behind) {
  std::uint32_t written = 0;
  std::vector<std::uint32_t> damaged;
  std::vector<Answer> refused;
  int failure = -EIO;
  for (WrittenPiece::Copy& copy : piece.copies) {
    const WireReply& reply = copy.call.wait();
    if (reply.status == 0 && reply.words[0] == piece.bytes) {
      ++written;
      continue;
    }
    if (reply.status == -damaged_error) {
      if (placement_.copies() == 1) {
        tell_damage(copy.server, reply);
        return -EIO;
      }
      damaged.push_back(copy.server);
      continue;
    }
    if (reply.status == -ENOSPC || reply.status == -EROFS) {
      failure = reply.status;
    }
    if (reply.status == -EBADMSG) {  // What it missed is to be written again, or comes from another copy.
      damaged.push_back(copy.server);
      continue;
    }
    if (server_failed(reply.status)) {
      lose(copy.server, -reply.status);
    } else {
      refused.push_back({copy.server, reply.status == 0 ? -EIO : reply.status});
    }
  }
  // A copy that missed a write is behind. Where all did, as on disks that are full, it is to be written again.
  for (const Answer& answer : refused) {
    if (written > 0 && placement_.copies() > 1) {
      lose(answer.server, -answer.status);
    }
  }
  if (piece.copies.size() < placement_.copies()) {
    await_losing();
  }
  if (!damaged.empty() && written > 0) {
    behind.push_back({piece.offset, piece.bytes, written, std::move(damaged)});
    return 0;
  }
  for (const std::uint32_t server : damaged) {
    if (placement_.copies() > 1) {
      lose(server, EIO);
    }
  }
  return written >= copies_asked() ? 0 : failure;
}

std::int64_t RemoteStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (!writable_) {
    return -EROFS;
  }
  if (in_child()) {
    return -EIO;
  }
  const std::uint64_t size = size_bytes();
  if (offset >= size) {
    return bytes == 0 ? 0 : -ENOSPC;
  }
  if (const int result = begin_changes(); result != 0) {
    return result;
  }
  const std::uint64_t take = std::min<std::uint64_t>(bytes, size - offset);
  std::vector<Behind> behind;
  // Only read, whatever its type says.
  int result = write_all({static_cast<std::byte*>(const_cast<void*>(buffer)), take}, offset, behind);
  if (!behind.empty()) {
    const std::unique_lock alone(writing_);
    for (const Behind& piece : behind) {
      const int one = catch_up(piece);
      result = result == 0 ? one : result;
    }
  }
  return result == 0 ? static_cast<std::int64_t>(take) : result;
}

int RemoteStore::write_all(std::span<std::byte> left, std::uint64_t offset, std::vector<Behind>& behind) {
  const std::shared_lock beside_others(writing_);
  std::deque<WrittenPiece> sent;
  int result = 0;
  const auto finish_first = [&] {
    const int one = finish_write(sent.front(), behind);
    result = result == 0 ? one : result;
    sent.pop_front();
  };
  while (!left.empty() && result == 0) {
    const Piece piece = next_piece(offset, left);
    WrittenPiece written{piece.offset, piece.bytes.size(), {}};
    for (std::uint32_t copy = 0; copy < placement_.copies(); ++copy) {
      const std::uint32_t server = placement_.server(piece.offset, copy);
      if (parts_[server] != nullptr && parts_[server]->usable()) {
        written.copies.push_back(
            {server, parts_[server]->start_write(placement_.local_offset(piece.offset, copy), piece.bytes)});
      }
    }
    sent.push_back(std::move(written));
    left = left.subspan(piece.bytes.size());
    offset += piece.bytes.size();
    if (sent.size() >= most_pieces_in_flight) {
      finish_first();
    }
  }
  while (!sent.empty()) {
    finish_first();
  }
  return result;
}

/// All servers that are left.
std::vector<RemoteStore::Answer> RemoteStore::ask_all(MemoryRequest kind, std::uint64_t first, std::uint64_t second) {
  std::vector<std::pair<std::uint32_t, WireCall>> calls;
  for (std::uint32_t server = 0; server < parts_.size(); ++server) {
    if (parts_[server] != nullptr && parts_[server]->usable()) {
      calls.emplace_back(server, parts_[server]->start_change(kind, first, second));
    }
  }
  std::vector<Answer> answers;
  answers.reserve(calls.size());
  for (auto& [server, call] : calls) {
    answers.push_back({server, call.wait().status});
  }
  return answers;
}

/// Fails if too few servers have done it, for some byte.
int RemoteStore::conclude(const std::vector<Answer>& answers) {
  int failure = 0;
  const auto done =
      static_cast<std::size_t>(std::ranges::count_if(answers, [](const Answer& one) { return one.status == 0; }));
  const bool some_are_behind = placement_.copies() > 1 && done > 0;
  for (const auto& [server, status] : answers) {
    if (status != 0) {
      failure = server_failed(status) ? failure : status;
      if ((server_failed(status) && status != -EBADMSG) || some_are_behind) {
        lose(server, -status);
      }
    }
  }
  if (answers.size() < parts_.size()) {
    await_losing();
  }
  const std::size_t needed = layout_.kind == DataSetLayout::Kind::replicated ? layout_.copies : parts_.size();
  return done >= needed ? 0 : (failure != 0 ? failure : -EIO);
}

/// Before the first change every server is told of a new version, also those that no write will reach: one that is not
/// told, because it is away, is then known to be behind.
int RemoteStore::begin_changes() {
  if (begun_.load(std::memory_order_acquire) || layout_.kind == DataSetLayout::Kind::single) {
    return 0;
  }
  const std::lock_guard lock(losing_);
  const std::size_t needed = layout_.kind == DataSetLayout::Kind::replicated ? layout_.copies : parts_.size();
  if (!begun_.load()) {
    const std::size_t told = announce_next();
    if (told < needed) {
      return -EIO;  // And nothing has become newer than what is out of reach.
    }
    renew_others(told);
    const auto usable = [](const auto& part) { return part != nullptr && part->usable(); };
    begun_.store(static_cast<std::size_t>(std::ranges::count_if(parts_, usable)) >= needed);
  }
  return begun_.load() ? 0 : -EIO;
}

int RemoteStore::flush() {
  if (!writable_) {
    return 0;
  }
  return in_child() ? -EIO : change_all(MemoryRequest::flush, 0, 0);
}

void RemoteStore::score(std::uint64_t offset, std::uint64_t bytes, double score, std::uint64_t sharer) noexcept {
  const std::uint64_t size = size_bytes();
  if (offset < size && !in_child()) {
    scores_.score(offset, std::min(bytes, size - offset), score, sharer);
  }
}

/// Servers keep whole stripes: what is cut off must not come back from the last of them when the store grows again.
int RemoteStore::clear_behind(std::uint64_t bytes) {
  const std::uint64_t end = std::min(size_bytes(), placement_.kept_bytes(bytes));
  const std::vector<std::byte> zeros(std::min<std::uint64_t>(end > bytes ? end - bytes : 0, 1 << 20));
  for (std::uint64_t at = bytes; at < end; at += zeros.size()) {
    const std::int64_t put = write(zeros.data(), std::min<std::uint64_t>(zeros.size(), end - at), at);
    if (put < 0) {
      return static_cast<int>(put);
    }
  }
  return 0;
}

/// Where one server refuses it, for want of room, the others go back: else what lies on them would not be one size.
int RemoteStore::resize_all(std::uint64_t bytes) {
  const std::vector<Answer> answers = ask_all(MemoryRequest::resize, placement_.local_bytes(bytes), bytes);
  const auto refusal = std::ranges::find_if(
      answers, [](const Answer& answer) { return answer.status != 0 && !server_failed(answer.status); });
  if (refusal == answers.end()) {
    return conclude(answers);
  }
  const std::uint64_t before = size_bytes();
  for (const auto& [server, status] : answers) {
    const int now =
        status != 0
            ? status
            : parts_[server]->start_change(MemoryRequest::resize, placement_.local_bytes(before), before).wait().status;
    if (status == 0 ? now != 0 : server_failed(status)) {
      lose(server, -now);
    }
  }
  return refusal->status;
}

int RemoteStore::resize(std::uint64_t bytes) {
  if (!writable_) {
    return -EROFS;
  }
  if (in_child()) {
    return -EIO;
  }
  if (bytes > DataSetPlacement::most_bytes) {
    return -EFBIG;
  }
  int result = begin_changes();
  // Who made it smaller before may have died before all servers had heard of it.
  const bool unequal = std::ranges::any_of(parts_, [&](const auto& part) {
    return part != nullptr && part->usable() && part->facts().whole_bytes != size_bytes();
  });
  if (result == 0 && unequal) {
    result = resize_all(size_bytes());
  }
  result = result == 0 ? clear_behind(bytes) : result;
  if (result != 0) {
    return result;
  }
  result = resize_all(bytes);
  if (result == 0) {
    size_.store(bytes, std::memory_order_release);
  }
  return result;
}

int RemoteStore::punch(std::uint64_t, std::uint64_t) {
  return -ENOTSUP;
}

}  // namespace tiermap
