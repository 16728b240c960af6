// `tiermap heap` on heaps that this process has made, closed, left open, had killed, and damaged.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heap/damaged_heap.hpp"
#include "heap/heap_layout.hpp"
#include "tools/command.hpp"

namespace tiermap {
namespace {

using nlohmann::json;

class HeapCommand : public FilledHeapTest {
 protected:
  CommandResult heap_command(std::vector<std::string> words, const std::function<bool()>& prepare = {}) const {
    words.insert(words.begin(), "heap");
    return run_tiermap(words, {}, prepare);
  }
  json report(std::vector<std::string> words) const {
    words.push_back("--json");
    const CommandResult result = heap_command(words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(result.errors, "") << "nothing is shown in a pipe";
    return json::parse(result.output, nullptr, false);
  }
};

TEST_F(HeapCommand, ls_lists_what_is_there) {
  make_closed();
  const json objects = report({"ls", path_}).at("objects");
  ASSERT_EQ(objects.size(), FilledHeap::named);
  const Heap heap = Heap::open_read_only(path_, small());
  const std::vector<HeapObject> expected = heap.objects();
  for (std::size_t index = 0; index < expected.size(); ++index) {
    const HeapObject& object = expected[index];
    EXPECT_EQ(objects[index].at("name"), object.unique ? json() : json(object.name));
    EXPECT_EQ(objects[index].at("kind"), object.unique ? "unique" : object.count > 1 ? "array" : "object");
    EXPECT_EQ(objects[index].at("type"), object.type_name);
    EXPECT_EQ(objects[index].at("number"), object.count);
    EXPECT_EQ(objects[index].at("bytes"), object.count * object.size_bytes);
    EXPECT_EQ(objects[index].at("description"), object.description);
  }
  const CommandResult table = heap_command({"ls", path_});
  EXPECT_EQ(table.exit_code, 0) << "readers may be many";
  EXPECT_TRUE(says(table.output, "as long as their key"));
  EXPECT_EQ(std::ranges::count(table.output, '\n'), 1 + static_cast<int>(FilledHeap::named));
}

TEST_F(HeapCommand, ls_shows_no_control_characters) {
  {
    Heap heap = Heap::create(path_, small());
    heap.construct<int>("two\nlines \x1b[2J")(1);
  }
  const CommandResult table = heap_command({"ls", path_});
  EXPECT_TRUE(says(table.output, "two?lines ?[2J"));
  EXPECT_EQ(report({"ls", path_}).at("objects").at(0).at("name"), "two\nlines \x1b[2J");
}

TEST_F(HeapCommand, ls_has_short_lines_beside_a_long_one) {
  {
    Heap heap = Heap::create(path_, small());
    heap.construct<int>("short")(1);
    heap.construct<int>("long")(2);
    heap.describe("short", "brief");
    heap.describe("long", std::string(100'000, 'd'));
  }
  const CommandResult table = heap_command({"ls", path_});
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_TRUE(says(table.output, std::string(100'000, 'd') + "  int\n"));
  EXPECT_LT(table.output.size(), 101'000U);
}

TEST_F(HeapCommand, stat_tells_of_the_space) {
  make_closed();
  const json space = report({"stat", path_});
  HeapStatistics statistics;
  {
    const Heap heap = Heap::open_read_only(path_, small());
    statistics = heap.statistics();
  }
  EXPECT_EQ(space.at("capacity_bytes"), statistics.capacity_bytes);
  EXPECT_EQ(space.at("blocks"), statistics.live_blocks);
  EXPECT_EQ(space.at("used_bytes"), statistics.live_bytes);
  EXPECT_EQ(space.at("taken_bytes"), statistics.taken_bytes);
  EXPECT_EQ(space.at("layout_version"), heap_layout_version);
  EXPECT_EQ(space.at("closed"), true);
  EXPECT_EQ(space.at("objects"), FilledHeap::named);
  struct stat status = {};
  ASSERT_EQ(::stat((path_ + "/data").c_str(), &status), 0);
  EXPECT_EQ(space.at("data_disk_bytes"), status.st_blocks * 512);
  std::uint64_t blocks = space.at("large").at("blocks");
  for (const json& of_class : space.at("size_classes")) {
    blocks += of_class.at("live_blocks").get<std::uint64_t>();
    EXPECT_GE(of_class.at("unused_share"), 0);
    EXPECT_LE(of_class.at("unused_share"), 1);
  }
  EXPECT_EQ(blocks, statistics.live_blocks);
  EXPECT_TRUE(says(heap_command({"stat", path_}).output, "BLOCK BYTES"));
}

TEST_F(HeapCommand, stat_of_a_killed_heap_says_what_is_in_the_journal) {
  make_killed();
  const json space = report({"stat", path_});
  EXPECT_EQ(space.at("closed"), false);
  EXPECT_GT(space.at("journal_bytes_to_apply"), 0);
  EXPECT_TRUE(says(heap_command({"stat", path_}).output, "still in the journal"));
}

TEST_F(HeapCommand, check_ends_with_0_for_a_sound_heap) {
  make_closed();
  const json sound = report({"check", path_});
  EXPECT_EQ(sound.at("sound"), true);
  EXPECT_EQ(sound.at("condition"), "closed");
  EXPECT_EQ(sound.at("intact").size(), FilledHeap::named);
  EXPECT_TRUE(says(heap_command({"check", path_}).output, "is sound. It was closed properly."));
  Heap::remove(path_);
  make_killed();
  const CommandResult unfinished = heap_command({"check", path_});
  EXPECT_EQ(unfinished.exit_code, 0);
  EXPECT_TRUE(says(unfinished.output, "of that checkpoint to be finished"));
}

TEST_F(HeapCommand, check_ends_with_1_and_names_each_place) {
  make_closed();
  const FlippedByte state(path_ + "/data", 4096 + 20, 2);
  const FlippedByte record(path_ + "/data", HeapLayout::metadata_offset + 4096 + 600, 2);
  const CommandResult text = heap_command({"check", path_});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_EQ(text.errors, "");
  EXPECT_TRUE(says(text.output, "is not sound: 2 findings"));
  EXPECT_TRUE(says(text.output, "\ndata, byte 4096: the state block"));
  EXPECT_TRUE(says(text.output, "\ndata, byte 12288: slab record 0"));
  const CommandResult result = heap_command({"check", path_, "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const json findings = json::parse(result.output).at("findings");
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[1].at("file"), "data");
  EXPECT_EQ(findings[1].at("byte"), 12288);
}

TEST_F(HeapCommand, check_of_a_heap_killed_without_checkpoints_says_what_can_be_saved) {
  make_killed(false);
  const CommandResult result = heap_command({"check", path_});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(says(result.output, "written without checkpoints"));
  EXPECT_TRUE(says(result.output, "Can be saved"));
  EXPECT_TRUE(says(result.output, "\n  numbers "));
  for (const char* other : {"ls", "stat", "compact"}) {
    const CommandResult refused = heap_command({other, path_});
    EXPECT_EQ(refused.exit_code, 1) << other;
    EXPECT_TRUE(says(refused.errors, "tiermap heap check"));
    EXPECT_TRUE(is_one_line(refused.errors));
  }
}

TEST_F(HeapCommand, what_is_no_heap_gets_one_line_and_exit_code_2) {
  std::ofstream(directory_ / "file") << "text";
  std::filesystem::create_directory(directory_ / "empty");
  std::filesystem::create_directories(directory_ / "other/data");
  for (const char* name : {"missing", "file", "empty", "other", "file/below"}) {
    for (const char* command : {"ls", "stat", "check", "compact", "copy"}) {
      std::vector<std::string> words = {command, directory_ / name};
      if (words.front() == "copy") {
        words.push_back(copy_);
      }
      const CommandResult result = heap_command(words);
      EXPECT_EQ(result.exit_code, 2) << command << " " << name;
      EXPECT_TRUE(is_one_line(result.errors)) << result.errors;
      EXPECT_TRUE(says(result.errors, directory_ / name));
      EXPECT_EQ(result.output, "");
    }
  }
  EXPECT_FALSE(std::filesystem::exists(copy_));
  EXPECT_TRUE(says(heap_command({"nonsense"}).errors, "'heap nonsense'"));
  EXPECT_EQ(heap_command({}).exit_code, 2);
  EXPECT_EQ(heap_command({"copy", path_}).exit_code, 2);
}

TEST_F(HeapCommand, check_of_what_cannot_be_looked_at_ends_with_2_as_1_would_be_a_finding) {
  std::filesystem::create_symlink("around", directory_ / "around");
  for (const std::string& path : {std::string(), directory_ / "around/heap"}) {
    const CommandResult result = heap_command({"check", path});
    EXPECT_EQ(result.exit_code, 2) << path;
    EXPECT_TRUE(is_one_line(result.errors)) << result.errors;
    EXPECT_EQ(result.output, "");
  }
}

TEST_F(HeapCommand, empty_data_and_a_heap_without_data_cannot_be_read) {
  make_closed();
  ASSERT_EQ(::truncate((path_ + "/data").c_str(), 0), 0);
  const CommandResult empty = heap_command({"check", path_});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_TRUE(is_one_line(empty.errors)) << empty.errors;
  std::filesystem::remove(path_ + "/data");
  const CommandResult part = heap_command({"check", path_});
  EXPECT_EQ(part.exit_code, 2);
  EXPECT_TRUE(says(part.errors, "has lost its data"));
}

TEST_F(HeapCommand, a_heap_that_is_open_for_writing_is_refused) {
  make_closed();
  const Heap heap = Heap::open(path_, small());
  for (const char* command : {"ls", "stat", "check", "compact"}) {
    const CommandResult result = heap_command({command, path_});
    EXPECT_EQ(result.exit_code, std::string(command) == "check" ? 2 : 1) << command;
    EXPECT_TRUE(is_one_line(result.errors)) << result.errors;
    EXPECT_TRUE(says(result.errors, "in use"));
  }
  EXPECT_EQ(heap_command({"copy", path_, copy_}).exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(copy_));
}

TEST_F(HeapCommand, copy_makes_a_heap_and_never_writes_over_one) {
  make_killed();
  const CommandResult made = heap_command({"copy", path_, copy_});
  EXPECT_EQ(made.exit_code, 0) << made.errors;
  EXPECT_EQ(made.output + made.errors, "");
  EXPECT_TRUE(Heap::consistent(copy_));
  EXPECT_TRUE(FilledHeap::whole(Heap::open_read_only(copy_, small())));
  const CommandResult again = heap_command({"copy", path_, copy_});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_TRUE(says(again.errors, "there already"));
  EXPECT_TRUE(FilledHeap::whole(Heap::open_read_only(copy_, small())));
}

TEST_F(HeapCommand, copy_without_room_leaves_nothing) {
  make_closed();
  const CommandResult result = heap_command({"copy", path_, copy_}, [] {
    // Files of this process may not be longer than this: a disk that is full after 100 KiB.
    const rlimit limit = {100 << 10, 100 << 10};
    return ::signal(SIGXFSZ, SIG_IGN) != SIG_ERR && ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
  });
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(is_one_line(result.errors)) << result.errors;
  EXPECT_FALSE(std::filesystem::exists(copy_));
}

TEST_F(HeapCommand, salvage_opens_what_was_refused) {
  make_killed(false);
  const CommandResult refused = heap_command({"copy", path_, copy_});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(says(refused.errors, "--salvage"));
  EXPECT_FALSE(std::filesystem::exists(copy_));
  const CommandResult result = heap_command({"copy", path_, copy_, "--salvage"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(says(result.output, "intact metadata has them: 5."));
  EXPECT_EQ(Heap::open_read_only(copy_, small()).objects().size(), FilledHeap::named);
  EXPECT_EQ(heap_command({"check", copy_}).exit_code, 0);
}

TEST_F(HeapCommand, salvage_of_nothing_that_tells_where_things_are_is_refused) {
  make_closed();
  const FlippedByte superblock(path_ + "/data", 33, 1);
  const FlippedByte header(path_ + "/data", HeapLayout::metadata_offset + 1, 1);
  const FlippedByte state(path_ + "/data", 4096 + 20, 1);
  for (const auto& words :
       std::initializer_list<std::vector<std::string>>{{"copy", path_, copy_, "--salvage"}, {"check", path_}}) {
    const CommandResult result = heap_command(words);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(says(result.errors, "superblock"));
    EXPECT_TRUE(is_one_line(result.errors)) << result.errors;
  }
  EXPECT_FALSE(std::filesystem::exists(copy_));
}

TEST_F(HeapCommand, compact_gives_back_pages_and_the_journal) {
  make_killed();
  const json done = report({"compact", path_});
  EXPECT_GT(done.at("disk_bytes_before"), done.at("disk_bytes_after"));
  EXPECT_GT(done.at("journal_bytes_before"), 1 << 20);
  EXPECT_LE(done.at("journal_bytes_after"), 64 << 10);
  EXPECT_TRUE(FilledHeap::whole(Heap::open(path_, small())));
  const CommandResult again = heap_command({"compact", path_});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_TRUE(says(again.output, "on disk before"));
  EXPECT_TRUE(says(heap_command({"compact", "--help"}).output, "cannot be"));
}

/// Becomes a user who owns nothing here. False where this process may not.
bool become_nobody() {
  constexpr uid_t nobody = 65534;
  return ::geteuid() != 0 || (::setresgid(nobody, nobody, nobody) == 0 && ::setresuid(nobody, nobody, nobody) == 0);
}

TEST_F(HeapCommand, files_that_may_not_be_written_are_read_and_not_compacted) {
  make_closed();
  for (const std::string& file : {path_, path_ + "/data", path_ + "/journal"}) {
    ASSERT_EQ(::chmod(file.c_str(), file == path_ ? 0555 : 0444), 0);
  }
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  const CommandResult check = heap_command({"check", path_}, become_nobody);
  if (check.exit_code == not_prepared || check.exit_code == 127) {
    GTEST_SKIP() << "another user cannot run the command here";
  }
  EXPECT_EQ(check.exit_code, 0) << check.errors;
  EXPECT_EQ(heap_command({"ls", path_}, become_nobody).exit_code, 0);
  EXPECT_EQ(heap_command({"stat", path_}, become_nobody).exit_code, 0);
  const CommandResult compact = heap_command({"compact", path_}, become_nobody);
  EXPECT_EQ(compact.exit_code, 1);
  EXPECT_TRUE(is_one_line(compact.errors)) << compact.errors;
  ASSERT_EQ(::chmod((path_ + "/data").c_str(), 0), 0);
  const CommandResult unreadable = heap_command({"check", path_}, become_nobody);
  EXPECT_EQ(unreadable.exit_code, 2);
  EXPECT_TRUE(is_one_line(unreadable.errors)) << unreadable.errors;
  ASSERT_EQ(::chmod(path_.c_str(), 0755), 0);
}

TEST_F(HeapCommand, a_read_only_file_system_is_enough_to_check) {
  make_killed();
  const auto read_only = [&] {
    return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount(path_.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
           ::mount("none", path_.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  };
  const CommandResult check = heap_command({"check", path_}, read_only);
  if (check.exit_code == not_prepared) {
    GTEST_SKIP() << "this process may not mount";
  }
  EXPECT_EQ(check.exit_code, 0) << check.errors;
  EXPECT_EQ(heap_command({"copy", path_, copy_}, read_only).exit_code, 0);
  EXPECT_TRUE(FilledHeap::whole(Heap::open(copy_, small())));
  const CommandResult compact = heap_command({"compact", path_}, read_only);
  EXPECT_EQ(compact.exit_code, 1);
  EXPECT_TRUE(is_one_line(compact.errors)) << compact.errors;
}

TEST_F(HeapCommand, progress_is_shown_on_a_terminal_alone) {
  make_closed();
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(::grantpt(terminal) + ::unlockpt(terminal), 0);
  const std::string name = ::ptsname(terminal);
  const CommandResult result = heap_command({"check", path_}, [&] {
    const int errors = ::open(name.c_str(), O_RDWR | O_NOCTTY);
    return errors >= 0 && ::dup2(errors, STDERR_FILENO) >= 0;
  });
  EXPECT_EQ(result.exit_code, 0);
  std::array<char, 256> seen{};
  ::fcntl(terminal, F_SETFL, O_NONBLOCK);
  // However short it was, the line is taken away.
  EXPECT_GT(::read(terminal, seen.data(), seen.size() - 1), 0);
  EXPECT_NE(std::strstr(seen.data(), "\x1b[K"), nullptr);
  ::close(terminal);
}

}  // namespace
}  // namespace tiermap
