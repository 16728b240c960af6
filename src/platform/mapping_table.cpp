#include "platform/mapping_table.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "platform/engine_thread.hpp"
#include "platform/futex.hpp"
#include "platform/mapping_table_layout.hpp"
#include "platform/process_maps.hpp"
#include "platform/signals_blocked.hpp"

namespace tiermap {
namespace {

// The state of an entry, below its owner's 32 bits. Above these bits it counts the calls that are about to map the
// file, and above that those that ever were: who finds that it is over takes away what he has looked at, and nothing
// newer.
constexpr std::uint32_t made = 1;  ///< Its file stands there.
constexpr std::uint32_t writing = 2;
constexpr std::uint32_t serving = 4;
constexpr std::uint32_t asked = 8;       ///< To give back what is served.
constexpr std::uint32_t answering = 16;  ///< It is being given back.
constexpr std::uint32_t one_coming = 32;
constexpr std::uint32_t one_call = 1U << 17U;
constexpr std::uint32_t all_coming = one_call - one_coming;

/// Mapped by the kernel, and nobody is about to map it anew: it may have been unmapped since.
constexpr bool is_by_kernel(std::uint32_t state) noexcept {
  return (state & (all_coming | made | serving)) == made;
}
constexpr std::uint32_t owner_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32U);
}
constexpr std::uint32_t state_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word);
}
constexpr std::uint64_t word_of(std::uint32_t owner, std::uint32_t state) noexcept {
  return (std::uint64_t{owner} << 32U) | state;
}
}  // namespace

MappingTable::Entry::~Entry() {
  if (table_ != nullptr) {
    table_->change_mine(index_, [](std::uint32_t state) { return state - one_coming; });
  }
}

/// What tells whether an entry's owner still has what it says.
struct MappingTable::Owner {
  bool alive = false;
  MappedNumbers mapped;  ///< What the kernel maps for it.

  bool has(std::uint32_t state, FileIdentity file) const {
    return alive && (!is_by_kernel(state) || mapped.may_contain(file));
  }
};

// By which /proc shows it here: nothing for one in another namespace.
std::optional<std::string> MappingTable::process_of(std::uint32_t owner) const {
  const Layout::Slot& slot = layout_->slots[Layout::slot_of(owner)];
  const bool is_shown = process_namespace_ != 0 && slot.process_namespace.load() == process_namespace_;
  return is_shown ? std::optional(std::to_string(slot.process.load())) : std::nullopt;
}

MappingTable::Owner MappingTable::find_owner(std::uint32_t owner) const {
  const bool alive = is_alive(owner);
  const std::optional<std::string> process = process_of(owner);
  return {alive, alive && process.has_value() ? read_mapped_numbers(*process) : MappedNumbers()};
}

bool MappingTable::is_over(std::uint64_t word, FileIdentity file) const {
  if (!is_alive(owner_of(word))) {
    return true;
  }
  bool mapped = false;
  const auto compare = [&](const KernelMapping& mapping) {
    mapped = mapping.inode == file.inode;
    return mapped;
  };
  const std::optional<std::string> process = process_of(owner_of(word));
  return is_by_kernel(state_of(word)) && is_listed_by_number(file) && process.has_value() &&
         visit_kernel_mappings(*process, compare) && !mapped;
}

std::size_t MappingTable::used() const noexcept {
  return layout_ == nullptr ? 0 : std::min<std::size_t>(layout_->used.load(), Layout::most_entries);
}

std::optional<std::size_t> MappingTable::find_mine(FileIdentity file) const noexcept {
  const std::size_t end = used();
  for (std::size_t index = 0; index < end; ++index) {
    const Layout::Entry& entry = layout_->entries[index];
    if (owner_of(entry.word.load()) == me_ && entry.file() == file) {
      return index;
    }
  }
  return std::nullopt;
}

// No state at all: the entry is free. Others may ask, and take away what is over, at any time.
template <typename Change>
bool MappingTable::change_mine(std::size_t index, const Change& change) noexcept {
  if (layout_ == nullptr) {  // A handler has forked, and this is the child.
    return false;
  }
  std::atomic<std::uint64_t>& entry = layout_->entries[index].word;
  std::uint64_t word = entry.load();
  while (owner_of(word) == me_) {
    const std::uint32_t state = change(state_of(word));
    if (entry.compare_exchange_weak(word, state == 0 ? 0 : word_of(me_, state))) {
      return true;
    }
  }
  return false;
}

MappingTable::~MappingTable() {
  stop_answering();
  leave();
  for (std::size_t index = 0; index < used(); ++index) {
    change_mine(index, [](std::uint32_t) { return 0U; });
  }
  unmap();
}

// Nothing if the table is full. With signals blocked: a handler may map files too.
std::optional<std::size_t> MappingTable::begin(FileIdentity file, bool writes) {
  const std::lock_guard held(mine_);
  const std::uint32_t bits = made | (writes ? writing : 0);
  const std::uint32_t calls = ++calls_ * one_call;
  if (const auto known = find_mine(file)) {
    if (change_mine(*known, [&](std::uint32_t state) { return (((state % one_call) | bits) + one_coming) | calls; })) {
      return known;
    }
  }
  const std::uint32_t state = (bits + one_coming) | calls;
  std::optional<std::size_t> claimed = claim(file, state, 0);
  if (!claimed.has_value()) {
    clear_away();
    claimed = claim(file, state, 0);
  }
  return claimed;
}

std::optional<std::size_t> MappingTable::claim(FileIdentity file, std::uint32_t state, std::size_t first) noexcept {
  for (std::size_t index = first; layout_ != nullptr && index < Layout::most_entries; ++index) {
    Layout::Entry& entry = layout_->entries[index];
    std::uint64_t free = 0;
    if (entry.word.load() != 0 || !entry.word.compare_exchange_strong(free, word_of(me_, 0))) {
      continue;
    }
    entry.device.store(file.device);
    entry.inode.store(file.inode);
    std::uint64_t known = layout_->used.load();
    while (known <= index && !layout_->used.compare_exchange_weak(known, index + 1)) {
    }
    entry.word.store(word_of(me_, state));
    return index;
  }
  return std::nullopt;
}

// What is over, in a table that is full: each process is looked at once. Where that is of no use it is not done again
// for the next thousand files.
void MappingTable::clear_away() {
  constexpr int least_freed = 256;
  constexpr int files_to_pass_over = 1000;
  if (passed_over_ > 0) {
    --passed_over_;
    return;
  }
  std::map<std::uint32_t, Owner> owners;
  int freed = 0;
  for (std::size_t index = 0; index < used(); ++index) {
    Layout::Entry& entry = layout_->entries[index];
    std::uint64_t word = entry.word.load();
    const FileIdentity file = entry.file();
    if (word != 0 && !owners.contains(owner_of(word))) {
      owners.emplace(owner_of(word), find_owner(owner_of(word)));
    }
    const bool over = word != 0 && !owners.at(owner_of(word)).has(state_of(word), file);
    freed += over && entry.word.compare_exchange_strong(word, 0) ? 1 : 0;
  }
  passed_over_ = freed < least_freed ? files_to_pass_over : 0;
}

MappingTable::Entered MappingTable::enter(FileIdentity file, bool writes) {
  const CancellationHeld held;  // What maps is no place where a thread is cancelled.
  std::optional<std::size_t> index;
  bool alone = false;
  {
    const SignalsBlocked quiet;  // Once: there are programs that map a file page by page.
    index = begin(file, writes);
    alone = look_quietly(file, writes, Look::for_any) == Other::none;
  }
  Entered entered{index.has_value() ? Entry(*this, *index) : Entry(), !index.has_value()};
  if (alone) {
    return entered;
  }
  const Other others = look(file, writes, Look::asking);
  if (others >= Other::asked) {
    wait_for_others(file, writes);
  }
  entered.kept_by_writer = others >= Other::keeps && look(file, false, Look::for_serving) >= Other::keeps;
  entered.by_others = !index.has_value() || look(file, writes, Look::for_any) != Other::none;
  return entered;
}

bool MappingTable::serve(FileIdentity file) {
  start_answering();
  const auto index = find_mine(file);
  std::uint32_t before = 0;
  const bool entered = index.has_value() && change_mine(*index, [&](std::uint32_t state) {
                         before = state;
                         return state | serving;
                       });
  if (entered && look(file, (before & writing) != 0, Look::for_any) == Other::none) {
    return true;
  }
  // By another mapping, which others have asked for, or will.
  if ((before & serving) == 0) {
    stop_serving(file);
  }
  return false;
}

void MappingTable::note_writing(FileIdentity file) {
  bool newly = false;
  const auto index = find_mine(file);
  if (index.has_value() &&
      change_mine(*index,
                  [&](std::uint32_t state) {
                    newly = (state & writing) == 0;
                    return state | writing;
                  }) &&
      newly) {
    static_cast<void>(look(file, true, Look::asking));
  }
}

void MappingTable::stop_serving(FileIdentity file) noexcept {
  if (const auto index = find_mine(file)) {
    change_mine(*index, [](std::uint32_t state) { return state & ~(serving | asked | answering); });
  }
}

// It has none of them yet.
void MappingTable::inherit(const std::map<FileIdentity, bool>& files) noexcept {
  std::size_t first = 0;
  for (const auto& [file, writes] : files) {
    const auto claimed = claim(file, made | (writes ? writing : 0), first);
    if (!claimed.has_value()) {
      return;
    }
    first = *claimed + 1;
  }
}

void MappingTable::forget(FileIdentity file) noexcept {
  if (const auto index = find_mine(file)) {
    change_mine(*index, [](std::uint32_t state) { return (state & (all_coming | serving)) == 0 ? 0 : state; });
  }
}

// What the others do with the file, where that and this are not to be had together: the most of it. What the kernel
// maps for them is looked at only to know whether there is any, since that takes long. A signal's handler may come here
// too.
MappingTable::Other MappingTable::look(FileIdentity file, bool writes, Look what) {
  const SignalsBlocked quiet;
  return look_quietly(file, writes, what);
}

MappingTable::Other MappingTable::look_quietly(FileIdentity file, bool writes, Look what) {
  const std::lock_guard held(looking_);
  Other most = Other::none;
  const std::size_t end = used();
  for (std::size_t index = 0; index < end && (what != Look::for_any || most == Other::none); ++index) {
    most = std::max(most, look_at(index, file, writes, what));
  }
  return most;
}

MappingTable::Other MappingTable::look_at(std::size_t index, FileIdentity file, bool writes, Look what) {
  Layout::Entry& entry = layout_->entries[index];
  for (std::uint64_t word = entry.word.load();;) {
    const std::uint32_t owner = owner_of(word);
    const std::uint32_t state = state_of(word);
    // Who is making an entry looks for others after that.
    if (owner == 0 || owner == me_ || (state & made) == 0 || entry.file() != file ||
        (!writes && (state & writing) == 0) || (what != Look::for_any && (state & serving) == 0)) {
      return Other::none;
    }
    const bool over = is_over(word, file);
    const bool newly_asked = !over && what == Look::asking && (state & (serving | asked)) == serving;
    const std::uint64_t wanted = over ? 0 : newly_asked ? word | asked : word;
    if (!entry.word.compare_exchange_strong(word, wanted)) {
      continue;  // Its owner has changed it meanwhile, or it has another.
    }
    if (newly_asked) {
      ring(owner);
    }
    if (over || (state_of(wanted) & asked) == 0) {
      return over ? Other::none : Other::maps;
    }
    if (is_answering(owner)) {
      return Other::answers;
    }
    if (what == Look::in_vain) {
      unanswered_[index] = wanted;
    }
    const auto waited_for = unanswered_.find(index);
    return waited_for != unanswered_.end() && waited_for->second == wanted ? Other::keeps : Other::asked;
  }
}

void MappingTable::ring(std::uint32_t owner) noexcept {
  ring_slot(Layout::slot_of(owner));
}

void MappingTable::ring_slot(std::size_t slot) noexcept {
  std::atomic<std::uint32_t>& bell = layout_->slots[slot].bell;
  bell.fetch_add(1);
  shared_futex_wake_all(&bell);
}

// At any file, or at what keeps it from that: one thread does it all.
bool MappingTable::is_answering(std::uint32_t owner) const noexcept {
  if (layout_->slots[Layout::slot_of(owner)].taking.load() != 0) {
    return true;
  }
  const std::size_t end = used();
  for (std::size_t index = 0; index < end; ++index) {
    const std::uint64_t word = layout_->entries[index].word.load();
    if (owner_of(word) == owner && (state_of(word) & answering) != 0) {
      return true;
    }
  }
  return false;
}

// It may be stopped, and then nobody may hang, nor wait again for each mapping more; or have much to write.
void MappingTable::wait_for_others(FileIdentity file, bool writes) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds until_it_begins{10};
  constexpr std::chrono::seconds until_it_ends{600};
  const Clock::time_point begun = Clock::now();
  Clock::time_point answered = begun;  // Between two things that it has to do nothing says that it is at one.
  std::chrono::microseconds pause{100};
  for (;;) {
    const Other other = look(file, writes, Look::for_serving);
    if (other < Other::asked) {
      return;
    }
    const Clock::time_point now = Clock::now();
    answered = other == Other::answers ? now : answered;
    if (now - answered > until_it_begins || now - begun > until_it_ends) {
      look(file, writes, Look::in_vain);
      return;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(5000));
  }
}

void MappingTable::start_answering() {
  const std::lock_guard held(answering_);
  if (!thread_.joinable()) {
    stopping_ = false;
    thread_ = start_engine_thread(giving_thread, [this] { answer(); });
  }
}

void MappingTable::stop_answering() noexcept {
  if (layout_ != nullptr) {
    layout_->slots[Layout::slot_of(me_)].sharing = 0;
  }
  const std::lock_guard held(answering_);
  if (thread_.joinable()) {
    stopping_ = true;
    ring(me_);
    thread_.join();
    thread_ = std::thread();
  }
  sharers_ = 0;  // The thread sets it as well.
}

void MappingTable::answer() {
  const std::atomic<std::uint32_t>& bell = layout_->slots[Layout::slot_of(me_)].bell;
  while (!stopping_) {
    const std::uint32_t rung = bell.load();
    bool all = tell_sharers();
    for (std::size_t index = 0; index < used(); ++index) {
      all = answer_at(index) && all;
    }
    if (all && !stopping_) {
      shared_futex_wait(&bell, rung, sharers_ > 1 || !share_taken_ ? 1 : -1);  // Whoever is gone rings no bell.
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  for (std::size_t index = 0; index < used(); ++index) {
    change_mine(index, [](std::uint32_t state) { return state & ~answering; });
  }
}

// False if it cannot be answered now. That it is being answered stays said: who asks waits, since what is in the way
// ends, as a sync() does that has much to write.
bool MappingTable::answer_at(std::size_t index) {
  const Layout::Entry& entry = layout_->entries[index];
  const std::uint64_t word = entry.word.load();
  if (owner_of(word) != me_ || (state_of(word) & asked) == 0) {
    return true;
  }
  change_mine(index, [](std::uint32_t state) { return (state & asked) != 0 ? state | answering : state; });
  const bool done = give_back_(entry.file());
  if (done) {
    change_mine(index, [](std::uint32_t state) { return state & ~(asked | answering); });
  }
  return done;
}

}  // namespace tiermap
