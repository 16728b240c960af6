// Which files the processes of a user have mapped, in memory that they share. Who serves a file himself has a copy of
// its bytes: once another process maps the same file, and one of the two writes, both must map it through the kernel,
// whose memory is one.
//
// The table is a file in /dev/shm, with a slot for each process and an entry for each file of a process. There is no
// lock: whoever is about to map a file enters it first and looks for others then, so that of two who do it at a time
// one at least sees the other. An entry is one 64-bit word, of its owner and a state, and the file's numbers, which
// change only while nobody owns it. A process holds a lock of the kernel's (F_OFD_SETLK) on its slot's byte of the
// file: so whoever has died is known, however he died and in whatever namespace. Such a lock lasts as long as the file
// is open or mapped: what keeps it here is the mapping, and the program has all its descriptors. The last process
// removes the file.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "platform/file_identity.hpp"

namespace tiermap {

/// Thread-safe but for construction and destruction; in a forked child only forget_parents() may be called, on the
/// parent's.
class MappingTable {
 public:
  /// What serves the file here is to be mapped by the kernel from now on. Called in a thread of the table's. False if
  /// it cannot be done now: it is called again in a moment.
  using GiveBack = std::function<bool(FileIdentity)>;
  /// How far this process is with its share: it goes on at once, or tries again in a second.
  enum class Share { taken, in_part, in_the_way };
  /// So many processes take a share of the memory now, this one among them: of its control group's, where that limits
  /// it, or so many as this one's part of the machine's leaves room for. Called as GiveBack, until it is taken.
  using ShareOut = std::function<Share(std::size_t)>;
  /// What a thread is called that gives back.
  static constexpr const char* giving_thread = "tiermap-gives";

  /// Joins the table of this user's processes, or makes it. Throws PlatformError: no /dev/shm, or no room in it.
  explicit MappingTable(GiveBack give_back, ShareOut share_out = {}, std::string path = path_of_user());
  ~MappingTable();
  MappingTable(const MappingTable&) = delete;
  MappingTable& operator=(const MappingTable&) = delete;

  static std::string path_of_user();

  /// A file that is about to be mapped here: until this ends nobody believes that it is not.
  class Entry {
   public:
    Entry() noexcept = default;
    Entry(Entry&& other) noexcept : table_(std::exchange(other.table_, nullptr)), index_(other.index_) {}
    Entry& operator=(Entry&&) = delete;
    ~Entry();

   private:
    friend class MappingTable;
    Entry(MappingTable& table, std::size_t index) noexcept : table_(&table), index_(index) {}
    MappingTable* table_ = nullptr;
    std::size_t index_ = 0;
  };
  struct Entered {
    Entry entry;
    /// Another process has the file mapped, or the table is full: it must not be served here.
    bool by_others = false;
    /// One that writes to it serves it, and has not given it back in time: what either stores from now on the other
    /// does not see, and may undo.
    bool kept_by_writer = false;
  };

  /// Before a file is mapped; `writes`: so that it can be written to, and others see that. Whoever serves it elsewhere
  /// gives it back, if one of the two writes: that is waited for, as long as he is at it (or at what keeps him from it,
  /// but for 10 min at most), and for 10 s until he begins.
  Entered enter(FileIdentity file, bool writes);
  /// Of a file that has been entered, as it is to be served: false if another process has come meanwhile, and what else
  /// is served of it is to be given back. Does not wait.
  bool serve(FileIdentity file);
  /// What the kernel maps of a file that has been entered may be written to. Nobody is waited for.
  void note_writing(FileIdentity file);
  /// Nothing of it is served any more.
  void stop_serving(FileIdentity file) noexcept;
  /// What the kernel maps in a forked child, which has it from its parent, and whether so that it can be written to: as
  /// much as there is room for. Before any other is entered. Nobody is waited for.
  void inherit(const std::map<FileIdentity, bool>& files) noexcept;
  /// It is not mapped any more.
  void forget(FileIdentity file) noexcept;

  /// From here on this process takes a share of the memory, until stop_answering(): each that does is told how many
  /// there are, soon after one more does, and within two seconds of when one is gone. Returns the number. Throws
  /// PlatformError if there can be no thread.
  std::size_t share_memory();

  /// Ends the thread that answers others, until something is served again; give_back() must not wait for the caller.
  void stop_answering() noexcept;
  /// Nothing more will be mapped: if nobody else has joined the file goes.
  void leave() noexcept;
  /// In a forked child, where the table is not mapped: the object stays as it is, for ever.
  void forget_parents() noexcept { layout_ = nullptr; }

 private:
  struct Layout;
  enum class Other { none, maps, keeps, asked, answers };
  enum class Look { for_any, for_serving, asking, in_vain };

  struct Owner;
  class Descriptor;

  bool join();
  bool map(const Descriptor& file);
  void unmap() noexcept;
  bool take_slot(const Descriptor& file) noexcept;
  bool is_alive(std::uint32_t owner) const noexcept;
  std::optional<std::string> process_of(std::uint32_t owner) const;
  Owner find_owner(std::uint32_t owner) const;
  bool is_over(std::uint64_t word, FileIdentity file) const;
  std::size_t used() const noexcept;
  std::optional<std::size_t> find_mine(FileIdentity file) const noexcept;
  std::optional<std::size_t> begin(FileIdentity file, bool writes);
  std::optional<std::size_t> claim(FileIdentity file, std::uint32_t state, std::size_t first) noexcept;
  void clear_away();
  template <typename Change>
  bool change_mine(std::size_t index, const Change& change) noexcept;
  Other look(FileIdentity file, bool writes, Look what);
  Other look_quietly(FileIdentity file, bool writes, Look what);
  Other look_at(std::size_t index, FileIdentity file, bool writes, Look what);
  void ring(std::uint32_t owner) noexcept;
  void ring_slot(std::size_t slot) noexcept;
  void wait_for_others(FileIdentity file, bool writes);
  void start_answering();
  void answer();
  bool tell_sharers();
  bool shares_memory(std::size_t slot) const noexcept;
  bool is_in_group(std::size_t slot) const;
  std::size_t count_sharers() const;
  bool answer_at(std::size_t index);
  bool is_answering(std::uint32_t owner) const noexcept;

  const std::string path_;
  const GiveBack give_back_;
  const ShareOut share_out_;
  const std::uint64_t process_namespace_;  ///< In which this process has its number.
  Layout* layout_ = nullptr;
  FileIdentity file_;        ///< Of the table itself: by its name there may be another, if somebody has removed it.
  std::uint32_t me_ = 0;     ///< Slot and generation.
  std::mutex mine_;          ///< Of two threads that enter one file one makes the entry.
  int passed_over_ = 0;      ///< Under mine_: see clear_away().
  std::uint32_t calls_ = 0;  ///< Under mine_: that were ever about to map a file.
  std::mutex looking_;
  std::map<std::size_t, std::uint64_t> unanswered_;  ///< Under looking_: what was waited for in vain, as it was then.
  std::mutex answering_;                             ///< Guards the thread.
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::string cgroup_;                   ///< That limits this process's memory; as the next one set with sharers_.
  double part_of_machine_ = 1;           ///< Of what is available there, all that this process may have.
  std::atomic<std::size_t> sharers_{0};  ///< As this process knows; 0 if it is none.
  bool share_taken_ = true;              ///< Of the thread alone: not what is left of a share that was begun.
};

}  // namespace tiermap
