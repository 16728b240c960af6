#include "command_line/memory_system.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "config/option_table.hpp"
#include "config/resolve.hpp"
#include "config/size.hpp"
#include "platform/memory_limits.hpp"
#include "store/store_url.hpp"
#include "tiermap/cache.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t kernel_page = 4096;
constexpr std::uint64_t copy_chunk = std::uint64_t{4} << 20U;

std::string reason() {
  return std::generic_category().message(errno);
}

class RegionBytes final : public MappedBytes {
 public:
  explicit RegionBytes(Region region) : region_(std::move(region)) {
    data_ = region_.data();
    size_ = region_.size();
  }
  void prefetch(std::span<const ByteRange> ranges) override { region_.prefetch(ranges); }
  void advise(Advice advice, ByteRange range) override { region_.advise(advice, range); }
  void flush(ByteRange range) override { region_.flush(range); }
  void sync() override { region_.sync(); }
  void save() override { region_.sync(); }
  // In fault mode kernel what was written is the file's at once: it goes with that, as with the other systems.
  void discard() override {
    try {
      region_.discard({0, size_});
    } catch (const Error& error) {
      if (error.code().value() != ENOTSUP) {
        throw;
      }
    }
  }

 private:
  Region region_;
};

class KernelBytes final : public MappedBytes {
 public:
  KernelBytes(const std::string& path, std::uint64_t bytes, Access access, Advice advice) {
    const bool writable = access == Access::read_write;
    descriptor_ = ::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (descriptor_ < 0) {
      throw StoreError(errno, fmt::format("{} cannot be opened: {}", path, reason()));
    }
    void* memory = ::mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, descriptor_, 0);
    if (memory == MAP_FAILED) {
      const int number = errno;
      ::close(descriptor_);
      throw StoreError(number, fmt::format("{} cannot be mapped: {}", path, std::generic_category().message(number)));
    }
    data_ = static_cast<std::byte*>(memory);
    size_ = bytes;
    if (advice != Advice::normal) {
      KernelBytes::advise(advice, {0, size_});
    }
  }
  ~KernelBytes() override {
    ::munmap(data_, size_);
    ::close(descriptor_);
  }
  void prefetch(std::span<const ByteRange> ranges) override {
    for (const ByteRange& range : ranges) {
      advise(Advice::will_need, range);
    }
  }
  void advise(Advice advice, ByteRange range) override {
    if (const int word = kernel_advice(advice); word >= 0 && range.bytes != 0) {
      const std::uint64_t begin = range.offset / kernel_page * kernel_page;
      ::madvise(data_ + begin, range.offset + range.bytes - begin, word);
    }
  }
  void flush(ByteRange range) override {
    ::sync_file_range(descriptor_, static_cast<off64_t>(range.offset), static_cast<off64_t>(range.bytes),
                      SYNC_FILE_RANGE_WRITE);
  }
  void sync() override {
    if (::msync(data_, size_, MS_SYNC) != 0) {
      throw StoreError(errno, fmt::format("the mapped file cannot be written back: {}", reason()));
    }
  }
  void save() override { sync(); }

 private:
  static int kernel_advice(Advice advice) {
    switch (advice) {
      case Advice::normal:
        return MADV_NORMAL;
      case Advice::sequential:
        return MADV_SEQUENTIAL;
      case Advice::random:
        return MADV_RANDOM;
      case Advice::will_need:
        return MADV_WILLNEED;
      case Advice::dont_need:
      case Advice::cold:
        return MADV_COLD;
      case Advice::hot:
        return -1;
    }
    return -1;
  }
  int descriptor_ = -1;
};

class MemoryBytes final : public MappedBytes {
 public:
  explicit MemoryBytes(std::shared_ptr<Store> store) : store_(std::move(store)) {
    size_ = store_->size_bytes();
    void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw PlatformError(errno, fmt::format("{} bytes of memory are not to be had: {}", size_, reason()));
    }
    data_ = static_cast<std::byte*>(memory);
    for (std::uint64_t offset = 0; offset < size_; offset += copy_chunk) {
      read_fully(*store_, data_ + offset, std::min(copy_chunk, size_ - offset), offset);
    }
  }
  ~MemoryBytes() override { ::munmap(data_, size_); }
  void prefetch(std::span<const ByteRange>) override {}
  void advise(Advice, ByteRange) override {}
  void flush(ByteRange) override {}
  void sync() override {}
  void save() override {
    for (std::uint64_t offset = 0; offset < size_; offset += copy_chunk) {
      write_fully(*store_, data_ + offset, std::min(copy_chunk, size_ - offset), offset);
    }
    if (const int result = store_->flush(); result < 0) {
      throw StoreError(-result, fmt::format("{} cannot be made durable: {}", store_->name(),
                                            std::generic_category().message(-result)));
    }
  }

 private:
  std::shared_ptr<Store> store_;
};

/// Half of what may still be taken, as the library's own default.
std::uint64_t budget_or_half(const WorkloadOptions& options) {
  return options.budget_bytes.value_or(std::max(read_machine_memory().usable_bytes() / 2, std::uint64_t{16} << 20U));
}

/// Whether neither environment nor file of options chose it.
bool chosen_by_default(OptionId id) {
  const std::vector<OptionReport> reports = report_options();
  return std::any_of(reports.begin(), reports.end(), [id](const OptionReport& report) {
    return report.name == option_row(id).name && report.origin == "default";
  });
}

class TiermapSystem final : public MemorySystem {
 public:
  explicit TiermapSystem(const WorkloadOptions& options) : options_(options), cache_(cache_options(options)) {
    // The library refuses bad options when it maps, and until then much could be made in vain. Past the store's end,
    // because fault mode kernel would have to map the memory itself.
    constexpr std::uint64_t store_bytes = 4096;
    RegionOptions region = region_options(Access::read_only);
    region.offset = store_bytes;
    region.length = store_bytes;
    page_size_bytes_ = cache_.map(fmt::format("memory:{}", store_bytes), region).page_size_bytes();
  }
  void check_url(const std::string& url) const override {
    const std::string scheme = parse_store_url(url).scheme;
    if (cache_.fault_mode() == FaultMode::kernel && (scheme == "sparse" || scheme == "memory")) {
      throw OptionError(
          fmt::format("{} is not one plain file, which is all that fault mode kernel can map: name a file, "
                      "or choose --fault-mode notify or self-serving (`tiermap doctor` says what they "
                      "need)",
                      url));
    }
  }
  std::unique_ptr<MappedBytes> map(const Backing& backing, Access access) override {
    return std::make_unique<RegionBytes>(cache_.map(backing.store(), region_options(access)));
  }
  Cache* cache() override { return &cache_; }
  std::uint64_t budget_bytes() const override { return cache_.budget_bytes(); }
  std::uint64_t page_size_bytes() const override { return page_size_bytes_; }
  std::uint64_t least_page_bytes() const override {
    const bool follows = !options_.page_size_bytes && chosen_by_default(OptionId::page_size);
    return follows ? kernel_page : page_size_bytes_;
  }
  std::string description() const override { return cache_.fault_mode_reason(); }
  Statistics statistics() const override { return cache_.statistics(); }

 private:
  static CacheOptions cache_options(const WorkloadOptions& options) {
    CacheOptions cache;
    cache.budget_bytes = options.budget_bytes;
    cache.policy = options.policy;
    cache.fault_mode = options.fault_mode;
    if (options.fillers && chosen_by_default(OptionId::fillers)) {
      cache.fillers = options.fillers;
    }
    return cache;
  }
  RegionOptions region_options(Access access) const {
    RegionOptions region;
    region.access = access;
    region.advice = options_.advice;
    region.page_size_bytes = options_.page_size_bytes;
    region.read_ahead_bytes = options_.read_ahead_bytes;
    return region;
  }
  WorkloadOptions options_;
  Cache cache_;
  std::uint64_t page_size_bytes_ = 0;
};

class KernelSystem final : public MemorySystem {
 public:
  explicit KernelSystem(const WorkloadOptions& options) : options_(options), budget_bytes_(budget_or_half(options)) {}
  void check_url(const std::string& url) const override {
    if (!names_one_file(url)) {
      refuse(url);
    }
  }
  std::unique_ptr<MappedBytes> map(const Backing& backing, Access access) override {
    if (backing.plain_path().empty()) {
      refuse(backing.url());
    }
    return std::make_unique<KernelBytes>(backing.plain_path(), backing.size_bytes(), access, options_.advice);
  }
  std::uint64_t budget_bytes() const override { return budget_bytes_; }
  std::uint64_t page_size_bytes() const override { return kernel_page; }
  std::string description() const override { return "the kernel's page cache"; }

 private:
  [[noreturn]] static void refuse(const std::string& url) {
    throw OptionError(
        fmt::format("{} is not one plain file, and mmap maps nothing else: choose --system tiermap", url));
  }
  WorkloadOptions options_;
  std::uint64_t budget_bytes_;
};

class InMemorySystem final : public MemorySystem {
 public:
  explicit InMemorySystem(const WorkloadOptions& options) : budget_bytes_(budget_or_half(options)) {}
  void check_url(const std::string&) const override {}
  void check_memory_for(std::uint64_t bytes) const override {
    const std::uint64_t usable = read_machine_memory().usable_bytes();
    if (bytes > usable) {
      throw OptionError(fmt::format("{} does not fit into the {} of memory that are left: choose another --system, or "
                                    "less data",
                                    format_size_rounded(bytes), format_size_rounded(usable)),
                        ENOMEM);
    }
  }
  std::unique_ptr<MappedBytes> map(const Backing& backing, Access) override {
    return std::make_unique<MemoryBytes>(backing.store());
  }
  std::uint64_t budget_bytes() const override { return budget_bytes_; }
  std::uint64_t page_size_bytes() const override { return kernel_page; }
  std::string description() const override { return "all of the file in memory"; }

 private:
  std::uint64_t budget_bytes_;
};

// A policy is tiermap's alone, but a name that is none is a mistake with every system.
void check_policy(const WorkloadOptions& options) {
  CacheOptions cache;
  cache.policy = options.policy;
  static_cast<void>(resolve(cache));
}

}  // namespace

std::unique_ptr<MemorySystem> MemorySystem::make(const WorkloadOptions& options) {
  check_policy(options);
  switch (options.system) {
    case System::tiermap:
      return std::make_unique<TiermapSystem>(options);
    case System::mmap:
      return std::make_unique<KernelSystem>(options);
    case System::memory:
      break;
  }
  return std::make_unique<InMemorySystem>(options);
}

}  // namespace tiermap
