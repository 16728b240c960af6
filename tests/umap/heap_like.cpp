// What a persistent heap does with UMap, and expects: a header and a segment in one reservation of PROT_NONE, the
// segment a SparseStore of one page more than is mapped, with files of one page; flush, unmap a page more than was
// mapped, close, open again. heap_like DIRECTORY: makes a store there; ends with 0, or says what is not true.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <umap/store/SparseStore.h>
#include <umap/umap.h>

#include "expect.h"

namespace {

class Segment {
 public:
  bool create(const std::string& path, std::size_t capacity) {
    size_ = capacity;
    reserve();
    store_ = std::make_unique<Umap::SparseStore>(size_, page_, path, page_);
    return map(PROT_READ | PROT_WRITE);
  }

  bool open(const std::string& path, bool read_only) {
    size_ = Umap::SparseStore::get_capacity(path);
    reserve();
    store_ = std::make_unique<Umap::SparseStore>(path, read_only);
    return map(read_only ? PROT_READ : PROT_READ | PROT_WRITE);
  }

  void close() {
    EXPECT(::umap_flush() == 0);
    EXPECT(::uunmap(segment_, size_) == 0);
    EXPECT(store_->close_files() == 0);
    EXPECT(::mmap(reservation_, page_ + size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                  0) == reservation_);
    EXPECT(::munmap(raw_, 2 * page_ + size_) == 0);
  }

  char* data() const { return static_cast<char*>(segment_); }
  std::size_t size() const { return size_; }
  std::size_t page() const { return page_; }

 private:
  void reserve() {
    const std::size_t bytes = 2 * page_ + size_;
    raw_ = static_cast<char*>(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    EXPECT(raw_ != MAP_FAILED);
    reservation_ = raw_ + (page_ - reinterpret_cast<std::size_t>(raw_) % page_) % page_;
    EXPECT(::mmap(reservation_, page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           reservation_);
    std::strcpy(reservation_, "header");
    segment_ = reservation_ + page_;
  }

  bool map(int protection) {
    segment_ = Umap::umap_ex(segment_, size_ - page_, protection, UMAP_PRIVATE | UMAP_FIXED, -1, 0, store_.get());
    return segment_ != UMAP_FAILED && std::string(reservation_) == "header";
  }

  const std::size_t page_ = ::umapcfg_get_umap_page_size();
  std::size_t size_ = 0;
  char* raw_ = nullptr;
  char* reservation_ = nullptr;
  void* segment_ = nullptr;
  std::unique_ptr<Umap::SparseStore> store_;
};

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  EXPECT(::setenv("UMAP_BUFSIZE", "1000", 1) == 0);
  const std::string path = std::string(argv[1]) + "/heap";
  const std::size_t capacity = std::size_t{1} << 40U;
  {
    Segment segment;
    EXPECT(segment.create(path, capacity));
    for (std::size_t at = 0; at < 3000 * segment.page(); at += segment.page()) {
      std::memcpy(segment.data() + at, &at, sizeof at);
    }
    segment.data()[capacity - segment.page() - 1] = 'e';
    segment.close();
  }
  for (const bool read_only : {false, true}) {
    Segment segment;
    EXPECT(segment.open(path, read_only));
    EXPECT(segment.size() == capacity);
    for (std::size_t at = 0; at < 3000 * segment.page(); at += segment.page()) {
      EXPECT(std::memcmp(segment.data() + at, &at, sizeof at) == 0);
    }
    EXPECT(segment.data()[capacity - segment.page() - 1] == 'e');
    segment.close();
  }
  EXPECT(std::system(("rm -r " + path).c_str()) == 0);
  std::puts("as a heap uses it");
  return 0;
}
