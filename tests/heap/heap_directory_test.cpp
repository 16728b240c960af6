// A heap is made, opened and removed while others do the same at that path: nobody's heap is removed that he has open,
// and nobody waits for ever.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <map>
#include <thread>

#include "heap/directory_lock.hpp"
#include "heap/heap_data.hpp"
#include "heap/heap_directory.hpp"
#include "heap/heap_fixture.hpp"

namespace tiermap {
namespace {

using std::chrono::milliseconds;

/// Long enough for a thread to come to where it waits.
constexpr milliseconds a_moment{50};

class HeapDirectory : public HeapTest {
 protected:
  static FileDescriptor locked(const std::string& directory) {
    FileDescriptor descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(::flock(descriptor.get(), LOCK_EX | LOCK_NB), 0);
    return descriptor;
  }

  template <typename Call>
  static int error_of(Call&& call) {
    try {
      call();
    } catch (const StoreError& error) {
      return error.code().value();
    }
    return 0;
  }

  static unsigned mode_of(const std::string& path) {
    struct stat status = {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777U;
  }
};

TEST_F(HeapDirectory, removing_waits_for_the_directory_that_is_there_now) {
  Heap::create(path_, small()).close();
  FileDescriptor first = locked(path_);
  int error = 0;
  std::thread remover([&] { error = error_of([&] { Heap::remove(path_); }); });
  std::this_thread::sleep_for(a_moment);
  // While it waits another heap takes that one's place, and is not yet whole.
  std::filesystem::rename(path_, directory_ / "elsewhere");
  std::filesystem::create_directory(path_);
  FileDescriptor second = locked(path_);
  write_file(path_ + "/data", std::string(8192, '\0'));
  first = FileDescriptor();
  std::this_thread::sleep_for(a_moment);
  EXPECT_TRUE(std::filesystem::exists(path_ + "/data"));
  write_file(path_ + "/journal", "");
  const FileDescriptor journal(::open((path_ + "/journal").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(::flock(journal.get(), LOCK_EX | LOCK_NB), 0);
  second = FileDescriptor();
  remover.join();
  EXPECT_EQ(error, EBUSY);
  EXPECT_TRUE(std::filesystem::exists(path_ + "/data"));
}

TEST_F(HeapDirectory, what_was_made_in_vain_takes_nobody_elses_heap_away) {
  {
    const HeapInTheMaking making(path_);
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::remove(path_); }), "in use"));
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "in use"));
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::create(path_, small()); }), "in use"));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  {
    const HeapInTheMaking making(path_);
    std::filesystem::rename(path_, directory_ / "elsewhere");
    Heap::create(path_, small()).construct<int>("answer")(42);
  }
  EXPECT_EQ(*Heap::open(path_, small()).find<int>("answer"), 42);
}

TEST_F(HeapDirectory, one_that_fails_to_open_what_it_made_has_it_locked_until_it_is_gone) {
  HeapOptions impossible = small();
  impossible.budget_bytes = 1;  // Noticed after the files were made.
  EXPECT_THROW(Heap::create(path_, impossible), Error);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(HeapDirectory, an_opener_waits_for_who_removes_or_begins_a_heap) {
  std::filesystem::create_directory(path_);
  FileDescriptor removing = locked(path_);
  write_file(path_ + "/journal", "");
  std::string text;
  std::thread opener([&] { text = refusal<StoreError>([&] { Heap::open(path_, small()); }); });
  std::thread maker([&] { EXPECT_NO_THROW(Heap::open_or_create(path_, small()).close()); });
  std::this_thread::sleep_for(a_moment);
  std::filesystem::remove_all(path_);
  removing = FileDescriptor();
  opener.join();
  maker.join();
  EXPECT_TRUE(says(text, "missing") || says(text, "empty directory") || says(text, "in use")) << text;
  EXPECT_TRUE(Heap::consistent(path_));
}

TEST_F(HeapDirectory, an_empty_directory_is_no_heap_and_stays) {
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(Heap::remove(path_));
  EXPECT_EQ(error_of([&] { Heap::open(path_, small()); }), ENOENT);
  EXPECT_NO_THROW(Heap::open_or_create(path_, small()));
}

TEST_F(HeapDirectory, a_heap_whose_data_lies_elsewhere_is_not_removed) {
  HeapOptions options = small();
  options.backing = HeapBacking::sparse;
  Heap::create(path_, options).close();
  std::filesystem::rename(path_ + "/data", directory_ / "elsewhere");
  std::filesystem::create_directory_symlink(directory_ / "elsewhere", path_ + "/data");
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::remove(path_); }), "left as it is"));
  EXPECT_TRUE(Heap::consistent(path_));
}

TEST_F(HeapDirectory, what_cannot_be_looked_at_is_not_called_missing) {
  std::filesystem::create_symlink("around", directory_ / "around");
  const std::string hidden = directory_ / "around/heap";
  EXPECT_EQ(error_of([&] { Heap::open(hidden, small()); }), ELOOP);
  EXPECT_EQ(error_of([&] { Heap::create(hidden, small()); }), ELOOP);
  EXPECT_EQ(error_of([&] { Heap::open_or_create(hidden, small()); }), ELOOP);
  EXPECT_EQ(error_of([&] { Heap::remove(hidden); }), ELOOP);
  EXPECT_EQ(error_of([&] { Heap::check(hidden); }), ELOOP);
}

TEST_F(HeapDirectory, a_locked_directory_is_not_waited_for_for_ever) {
  std::filesystem::create_directory(path_);
  const FileDescriptor held = locked(path_);
  const auto text = refusal<StoreError>([&] { DirectoryLock::existing(path_, milliseconds(20)); });
  EXPECT_TRUE(says(text, path_ + " is in use"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { DirectoryLock::making(path_, milliseconds(20)); }), "is in use"));
  EXPECT_FALSE(DirectoryLock::existing(directory_ / "none").has_value());
}

TEST_F(HeapDirectory, a_heap_opens_though_somebody_has_its_directory_locked) {
  Heap::create(path_, small()).close();
  const FileDescriptor held = locked(path_);
  EXPECT_NO_THROW(Heap::open(path_, small()));
  EXPECT_TRUE(Heap::consistent(path_));
}

TEST_F(HeapDirectory, a_fifo_is_no_journal) {
  std::filesystem::create_directory(path_);
  ASSERT_EQ(::mkfifo((path_ + "/journal").c_str(), 0600), 0);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "not a regular file"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::create(path_, small()); }), "not a regular file"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::remove(path_); }), "left as it is"));
  write_file(path_ + "/data", "");
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_or_create(path_, small()); }), "not a regular file"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::check(path_); }), "not a regular file"));
}

/// Whoever opened one to look at it would wait for a writer that never comes.
TEST_F(HeapDirectory, what_is_no_file_in_a_sparse_heap_is_refused_and_not_waited_for) {
  HeapOptions options = small();
  options.backing = HeapBacking::sparse;
  Heap::create(path_, options).close();
  for (const char* const entry : {"/data/lock", "/data/segment-0000000000", "/data/metadata"}) {
    const std::string elsewhere = directory_ / "elsewhere";
    std::filesystem::rename(path_ + entry, elsewhere);
    ASSERT_EQ(::mkfifo((path_ + entry).c_str(), 0600), 0);
    for (const auto& call : std::initializer_list<std::function<void()>>{
             [&] { Heap::open(path_, options); }, [&] { Heap::open_read_only(path_, options); },
             [&] { static_cast<void>(Heap::consistent(path_)); }, [&] { Heap::check(path_); },
             [&] { Heap::open_or_create(path_, options); }}) {
      EXPECT_TRUE(says(refusal<StoreError>(call), path_ + entry));
    }
    std::filesystem::remove(path_ + entry);
    std::filesystem::rename(elsewhere, path_ + entry);
  }
  EXPECT_TRUE(Heap::consistent(path_));
}

TEST_F(HeapDirectory, segments_grow_with_the_heap_so_that_all_can_be_open) {
  for (const std::uint64_t capacity : {1ULL << 30, 1ULL << 40, 32ULL << 40}) {
    const std::string path = directory_ / std::to_string(capacity);
    std::filesystem::create_directory(path);
    const std::uint64_t end = HeapLayout(capacity).end;
    create_heap_data(path, HeapBacking::sparse, end)->write("x", 1, end - 1);
    EXPECT_EQ(open_heap_data(path, "/data", true)->size_bytes(), end);
    for (const auto& entry : std::filesystem::directory_iterator(path + "/data")) {
      if (entry.path().filename().string().starts_with("segment-")) {
        EXPECT_LE(end / entry.file_size(), 2048U);
        std::filesystem::resize_file(entry.path(), 4096);
      }
    }
    EXPECT_TRUE(says(refusal<StoreError>([&] { open_heap_data(path, "/data", true); }), "truncated"));
  }
}

TEST_F(HeapDirectory, a_snapshot_into_the_heap_itself_is_refused_however_it_is_reached) {
  HeapOptions options = small();
  options.backing = HeapBacking::sparse;
  Heap heap = Heap::create(path_, options);
  std::filesystem::create_directory(directory_ / "beside");
  std::filesystem::create_directory_symlink(path_, directory_ / "link");
  std::filesystem::create_directory_symlink(path_ + "/data", directory_ / "beside/deep");
  for (const char* const place : {"heap/copy", "link/copy", "beside/deep/copy", "beside/deep/copy/",
                                  "beside/deep/../copy", "beside/../link/copy"}) {
    EXPECT_TRUE(says(refusal<StoreError>([&] { heap.snapshot(directory_ / place); }), "within the heap")) << place;
  }
  EXPECT_EQ(error_of([&] { heap.snapshot(directory_ / "none/copy"); }), ENOENT);
  heap.close();
  EXPECT_TRUE(Heap::check(path_).sound());
  heap = Heap::open(path_, options);
  std::filesystem::create_directory_symlink(directory_ / "beside", directory_ / "aside");
  heap.snapshot(directory_ / "aside/copy");
  EXPECT_TRUE(Heap::consistent(directory_ / "beside/copy"));
}

TEST_F(HeapDirectory, copies_may_be_read_by_those_who_may_read_what_was_copied) {
  for (const HeapBacking backing : {HeapBacking::file, HeapBacking::sparse}) {
    HeapOptions options = small();
    options.backing = backing;
    Heap heap = Heap::create(path_, options);
    const auto modes = [](const std::string& heap_path) {
      std::map<std::string, unsigned> found{{"", mode_of(heap_path)}};
      for (const auto& entry : std::filesystem::recursive_directory_iterator(heap_path)) {
        if (entry.path().filename() != "lock") {  // A copy gets one when it is opened.
          found[entry.path().string().substr(heap_path.size())] = mode_of(entry.path());
        }
      }
      return found;
    };
    ASSERT_EQ(::chmod(path_.c_str(), 0750), 0);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      ASSERT_EQ(::chmod(entry.path().c_str(), entry.is_directory() ? 0710 : 0640), 0);
    }
    ASSERT_EQ(::chmod((path_ + "/journal").c_str(), 0600), 0);
    heap.snapshot(directory_ / "copy");
    EXPECT_EQ(modes(directory_ / "copy"), modes(path_));
    EXPECT_TRUE(Heap::consistent(directory_ / "copy"));
    heap.close();
    Heap::remove(path_);
    Heap::remove(directory_ / "copy");
  }
}

TEST_F(HeapDirectory, a_snapshot_that_fails_names_the_heap) {
  HeapOptions options = small();
  options.backing = HeapBacking::sparse;
  Heap heap = Heap::create(path_, options);
  ASSERT_EQ(::mkfifo((path_ + "/data/stray").c_str(), 0600), 0);
  EXPECT_TRUE(says(refusal<StoreError>([&] { heap.snapshot(directory_ / "copy"); }), path_ + "/data/stray"));
}

TEST_F(HeapDirectory, a_snapshot_without_a_path_is_refused) {
  Heap heap = Heap::create(path_, small());
  EXPECT_TRUE(says(refusal<StoreError>([&] { heap.snapshot(""); }), "empty"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { heap.update_snapshot(""); }), "empty"));
}

}  // namespace
}  // namespace tiermap
