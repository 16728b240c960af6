// Writing back what a region has dirty: sync(), write_back(), flush().
#include <cerrno>
#include <cstring>

#include "fault/evictors.hpp"
#include "region/paged_region_implementation.hpp"
#include "region/userfaultfd_engine.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

int PagedRegionImplementation::write_back(PagedRegion& region, Pages pages) {
  const std::lock_guard held(write_mutex_);
  const std::uint64_t unwritten = count_unwritten(engine_->pager_, region, pages.first, pages.end);
  if (unwritten <= 1) {  // Not worth another thread.
    return unwritten == 0 ? 0 : write_back_range(engine_->pager_, region, pages.first, pages.end, *write_back_);
  }
  int result = 0;
  engine_->writers_.run([&](WriteBack& write_back) {
    result = write_back_range(engine_->pager_, region, pages.first, pages.end, write_back);
  });
  return result;
}

// A page that comes in the other size meanwhile has what was written before from the store.
int PagedRegionImplementation::write_back_sizes(ByteRange range) {
  int first_error = 0;
  for_each_size([&](PagedRegion& region) {
    const int error = write_back(region, pages_of(region, range));
    first_error = first_error == 0 ? error : first_error;
  });
  return first_error;
}

void PagedRegionImplementation::sync(ByteRange range) {
  int error = region_.writable ? write_back_sizes(range) : 0;
  if (error == 0 && region_.writable) {
    try {
      error = region_.store->flush();
    } catch (...) {
      error = -EIO;
    }
  }
  if (error != 0) {
    refuse_write_back(error);
  }
}

void PagedRegionImplementation::write_back(ByteRange range) {
  const int error = region_.writable ? write_back_sizes(range) : 0;
  if (error != 0) {
    refuse_write_back(error);
  }
}

void PagedRegionImplementation::refuse_write_back(int error) const {
  throw Error(-error, "cannot write back to " + region_.store->name() + ": " + std::strerror(-error) +
                          "; what is dirty stays in memory, free the cause and sync again");
}

void PagedRegionImplementation::flush(ByteRange range) {
  if (region_.writable) {
    for_each_size([&](PagedRegion& region) {
      const Pages pages = pages_of(region, range);
      engine_->evictors_.flush(region, pages.first, pages.end);
    });
  }
}

}  // namespace tiermap
