// A program written for UMap's classes, in C++11: Umap::umap_ex, stores of its own, of a file, and SparseStore with all
// its members. use_stores DIRECTORY: makes files there; ends with 0, or says what is not true.
#include <fcntl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "expect.h"
#include "umap/store/SparseStore.h"
#include "umap/store/Store.hpp"
#include "umap/umap.h"

namespace {

const std::size_t page = 8192;
const std::size_t page_count = 100;
const std::size_t length = page * page_count;

class MemoryStore : public Umap::Store {
 public:
  explicit MemoryStore(std::size_t bytes) : content_(bytes), reads_(0), writes_(0) {}

  ssize_t read_from_store(char* buf, std::size_t nb, off_t off) {
    ++reads_;
    std::memcpy(buf, &content_[static_cast<std::size_t>(off)], nb);
    return static_cast<ssize_t>(nb);
  }
  ssize_t write_to_store(char* buf, std::size_t nb, off_t off) {
    ++writes_;
    std::memcpy(&content_[static_cast<std::size_t>(off)], buf, nb);
    return static_cast<ssize_t>(nb);
  }
  int reads() const { return reads_.load(); }
  int writes() const { return writes_.load(); }

 private:
  std::vector<char> content_;
  std::atomic<int> reads_;
  std::atomic<int> writes_;
};

void fill_and_check(char* region) {
  for (std::size_t at = 0; at < length; at += 512) {
    region[at] = static_cast<char>(at / 512);
  }
  for (std::size_t at = 0; at < length; at += 512) {
    EXPECT(region[at] == static_cast<char>(at / 512));
  }
}

void store_of_its_own() {
  MemoryStore store(length);
  void* region = Umap::umap_ex(NULL, length, PROT_READ | PROT_WRITE, UMAP_PRIVATE, -1, 0, &store);
  EXPECT(region != UMAP_FAILED);
  fill_and_check(static_cast<char*>(region));
  EXPECT(umap_flush() == 0);
  EXPECT(store.writes() >= static_cast<int>(page_count));
  EXPECT(uunmap(region, length) == 0);
  EXPECT(store.reads() > 0);
}

void store_of_a_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
  EXPECT(fd >= 0);
  EXPECT(::ftruncate(fd, static_cast<off_t>(length)) == 0);
  const std::unique_ptr<Umap::Store> store(Umap::Store::make_store(NULL, length, page, fd));
  EXPECT(store != nullptr);
  EXPECT(::close(fd) == 0);
  char word[] = "unaligned";
  EXPECT(store->write_to_store(word, sizeof word, 1001) == static_cast<ssize_t>(sizeof word));
  char seen[sizeof word] = {};
  EXPECT(store->read_from_store(seen, sizeof seen, 1001) == static_cast<ssize_t>(sizeof seen));
  EXPECT(std::string(seen) == word);
  char* const region =
      static_cast<char*>(Umap::umap_ex(NULL, length, PROT_READ | PROT_WRITE, UMAP_PRIVATE, -1, 0, store.get()));
  EXPECT(region != UMAP_FAILED);
  EXPECT(std::memcmp(region + 1001, word, sizeof word) == 0);
  fill_and_check(region);
  EXPECT(uunmap(region, length) == 0);
}

void sparse_store(const std::string& directory) {
  const std::size_t file_size = 4 * page;
  {
    std::unique_ptr<Umap::SparseStore> store(new Umap::SparseStore(length, page, directory, file_size));
    EXPECT(store->get_directory_creation_status() == 0);
    EXPECT(store->get_current_capacity() == length);
    // As found by the argument.
    void* region = umap_ex(NULL, length, PROT_READ | PROT_WRITE, UMAP_PRIVATE, -1, 0, store.get());
    EXPECT(region != UMAP_FAILED);
    fill_and_check(static_cast<char*>(region));
    EXPECT(uunmap(region, length) == 0);
    EXPECT(store->close_files() == 0);
  }
  EXPECT(Umap::SparseStore::get_capacity(directory) == length);
  Umap::SparseStore again(directory, true);
  EXPECT(again.get_current_capacity() == length);
  char* const region = static_cast<char*>(Umap::umap_ex(NULL, length, PROT_READ, UMAP_PRIVATE, -1, 0, &again));
  EXPECT(region != UMAP_FAILED);
  EXPECT(region[5 * 512] == 5);
  char seen[512];
  EXPECT(again.read_from_store(seen, sizeof seen, 5 * 512) == 512 && seen[0] == 5);
  EXPECT(again.write_to_store(seen, sizeof seen, 0) == -1);
  EXPECT(uunmap(region, length) == 0);
  EXPECT(again.close_files() == 0);
  EXPECT(again.read_from_store(seen, sizeof seen, 0) == -1);
}

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  EXPECT(setenv("UMAP_PAGESIZE", "8192", 1) == 0);
  EXPECT(setenv("UMAP_BUFSIZE", "32", 1) == 0);
  const std::string folder = std::string(argv[1]) + "/use-stores-" + std::to_string(::getpid());
  store_of_its_own();
  store_of_a_file(folder + ".bin");
  sparse_store(folder + ".sparse");
  EXPECT(std::system(("rm -r " + folder + ".bin " + folder + ".sparse").c_str()) == 0);
  std::puts("all of umap/store/");
  return 0;
}
