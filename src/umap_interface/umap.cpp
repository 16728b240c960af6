// The functions of umap/umap.h: arguments in, errno out, no exception past here.
#include "umap/umap.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "region/c_errors.hpp"
#include "tiermap/error.hpp"
#include "umap_interface/log.hpp"
#include "umap_interface/process.hpp"

namespace {

using tiermap::umap_interface::LogLevel;
using tiermap::umap_interface::MapRequest;
using tiermap::umap_interface::Process;
using tiermap::umap_interface::Setting;
using tiermap::umap_interface::setting_row;
using tiermap::umap_interface::Settings;

/// 0, or -1 with errno and a line in the log.
template <typename Body>
int done_or_reported(Body&& body) noexcept {
  const int result = tiermap::without_exceptions(-1, [&] {
    body();
    return 0;
  });
  if (result != 0) {
    tiermap::umap_interface::log(LogLevel::error, tiermap::kept_error());
  }
  return result;
}

std::uint64_t in_effect(Setting setting) noexcept {
  std::uint64_t value = 0;
  const int told = tiermap::without_exceptions(-1, [&] {
    value = Process::instance().settings()[setting];
    return 0;
  });
  if (told == 0) {
    return value;
  }
  // Where a variable cannot be used, umap() will refuse; until then, what holds without any.
  tiermap::umap_interface::log_once(LogLevel::error, tiermap::kept_error());
  return Settings({})[setting];
}

void set(Setting setting, std::uint64_t value) noexcept {
  done_or_reported([&] { Process::instance().set(setting, value); });
}

void set_percent(Setting setting, int value) noexcept {
  if (value < 0) {
    done_or_reported([&] {
      throw tiermap::OptionError(std::string(setting_row(setting).variable) + " " + std::to_string(value) +
                                 " is out of range: choose 0 to 100 percent");
    });
    return;
  }
  set(setting, static_cast<std::uint64_t>(value));
}

}  // namespace

void* Umap::umap_ex(void* addr, std::size_t length, int prot, int flags, int fd, off_t offset, Store* store) noexcept {
  void* mapped = UMAP_FAILED;
  done_or_reported([&] { mapped = Process::instance().map(MapRequest{addr, length, prot, flags, fd, offset, store}); });
  return mapped;
}

void* umap(void* addr, size_t length, int prot, int flags, int fd, off_t offset) noexcept {
  return Umap::umap_ex(addr, length, prot, flags, fd, offset, nullptr);
}

int uunmap(void* addr, size_t) noexcept {
  return done_or_reported([&] { Process::instance().unmap(addr); });
}

int umap_flush() noexcept {
  return done_or_reported([] { Process::instance().sync(); });
}

int umap_has_write_support() noexcept {
  return 1;
}

void umap_prefetch(int npages, umap_prefetch_item* page_array) noexcept {
  if (npages <= 0 || page_array == nullptr) {
    return;
  }
  done_or_reported([&] {
    std::vector<void*> addresses;
    addresses.reserve(static_cast<std::size_t>(npages));
    for (int page = 0; page < npages; ++page) {
      addresses.push_back(page_array[page].page_base_addr);
    }
    const std::size_t unknown = Process::instance().prefetch(addresses);
    if (unknown > 0) {
      tiermap::umap_interface::log(LogLevel::warning,
                                   std::to_string(unknown) + " pages to be prefetched are in no region");
    }
  });
}

void umap_fetch_and_pin(char* paddr, uint64_t size) noexcept {
  done_or_reported([&] { Process::instance().pin(paddr, size); });
}

long umapcfg_get_system_page_size() noexcept {
  return ::sysconf(_SC_PAGESIZE);
}
uint64_t umapcfg_get_umap_page_size() noexcept {
  return in_effect(Setting::page_size);
}
uint64_t umapcfg_get_max_fault_events() noexcept {
  return in_effect(Setting::max_fault_events);
}
uint64_t umapcfg_get_num_fillers() noexcept {
  return in_effect(Setting::page_fillers);
}
uint64_t umapcfg_get_num_evictors() noexcept {
  return in_effect(Setting::page_evictors);
}
uint64_t umapcfg_get_max_pages_in_buffer() noexcept {
  return in_effect(Setting::buffer_pages);
}
uint64_t umapcfg_get_read_ahead() noexcept {
  return in_effect(Setting::read_ahead);
}
int umapcfg_get_evict_low_water_threshold() noexcept {
  return static_cast<int>(in_effect(Setting::low_threshold));
}
int umapcfg_get_evict_high_water_threshold() noexcept {
  return static_cast<int>(in_effect(Setting::high_threshold));
}

void umapcfg_set_umap_page_size(uint64_t page_size) noexcept {
  set(Setting::page_size, page_size);
}
void umapcfg_set_max_fault_events(uint64_t max_events) noexcept {
  set(Setting::max_fault_events, max_events);
}
void umapcfg_set_num_fillers(uint64_t num_fillers) noexcept {
  set(Setting::page_fillers, num_fillers);
}
void umapcfg_set_num_evictors(uint64_t num_evictors) noexcept {
  set(Setting::page_evictors, num_evictors);
}
void umapcfg_set_max_pages_in_buffer(uint64_t max_pages) noexcept {
  set(Setting::buffer_pages, max_pages);
}
void umapcfg_set_read_ahead(uint64_t num_pages) noexcept {
  set(Setting::read_ahead, num_pages);
}
void umapcfg_set_evict_low_water_threshold(int percent) noexcept {
  set_percent(Setting::low_threshold, percent);
}
void umapcfg_set_evict_high_water_threshold(int percent) noexcept {
  set_percent(Setting::high_threshold, percent);
}
