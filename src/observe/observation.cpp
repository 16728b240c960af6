// The side of a publication that reads: finds the files, passes over what is not one, removes what dead processes left.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <memory>
#include <tuple>

#include "observe/publication.hpp"
#include "observe/publication_layout.hpp"
#include "observe/published_name.hpp"
#include "platform/process_start.hpp"

namespace tiermap {
namespace {

constexpr std::string_view name_prefix = "tiermap.";

/// Closes when it goes.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags) : descriptor_(::open(path.c_str(), flags)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

/// Fills `object` from the file; false if the file does not reach that far.
template <typename T>
bool read_object(int file_descriptor, T& object, std::uint64_t offset) {
  auto* bytes = reinterpret_cast<std::byte*>(&object);
  std::size_t done = 0;
  while (done < sizeof(T)) {
    const ssize_t got = ::pread(file_descriptor, bytes + done, sizeof(T) - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return false;
    }
    done += static_cast<std::size_t>(got);
  }
  return true;
}

bool header_is_ours(const PublishedHeader& header, const PublicationName& name) {
  return header.magic.load(std::memory_order_acquire) == PublishedHeader::magic_value &&
         header.version == PublishedHeader::version_value && header.counters == counter_count &&
         header.stages == stage_count && header.max_regions == Publication::max_regions &&
         header.file_bytes == sizeof(PublishedCache) && header.process == name.process &&
         header.instance == name.instance;
}

/// Removes the file at `path` if no process holds its lock: one in another process name space may look dead from here.
void remove_if_abandoned(const std::string& path, int file_descriptor) {
  if (::flock(file_descriptor, LOCK_EX | LOCK_NB) == 0) {
    ::unlink(path.c_str());
  }
}

std::vector<ObservedRegion> read_regions(int file_descriptor, std::uint32_t slots_used) {
  std::vector<ObservedRegion> regions;
  const auto region = std::make_unique<PublishedRegion>();
  for (std::uint32_t slot = 0; slot < std::min(slots_used, Publication::max_regions); ++slot) {
    const std::uint64_t offset = offsetof(PublishedCache, regions) + slot * sizeof(PublishedRegion);
    if (!read_object(file_descriptor, *region, offset)) {
      break;
    }
    if (region->in_use.load(std::memory_order_relaxed) == 1) {
      regions.push_back({slot, read_name(region->name), region->length_bytes.load(std::memory_order_relaxed),
                         region->page_size_bytes.load(std::memory_order_relaxed), region->counters.snapshot(),
                         region->tiers.observe()});
    }
  }
  return regions;
}

std::optional<ObservedCache> observe_cache(const std::string& path, const PublicationName& name) {
  // A FIFO of that name must not block, nor a link lead elsewhere.
  const OpenFile file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat status{};
  if (file.descriptor() < 0 || ::fstat(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != ::geteuid()) {
    return std::nullopt;
  }
  const auto started = process_start_time(name.process);
  if (!started) {
    remove_if_abandoned(path, file.descriptor());
    return std::nullopt;
  }
  PublishedHeader header{};
  CounterBlock counters{};
  if (!read_object(file.descriptor(), header, offsetof(PublishedCache, header)) ||
      !read_object(file.descriptor(), counters, offsetof(PublishedCache, counters)) || !header_is_ours(header, name)) {
    return std::nullopt;
  }
  if (header.process_start != *started) {
    remove_if_abandoned(path, file.descriptor());
    return std::nullopt;
  }
  ObservedCache cache;
  cache.process = name.process;
  cache.instance = name.instance;
  cache.name = read_name(header.name);
  cache.policy = read_name(header.policy);
  cache.fault_mode = read_name(header.fault_mode);
  cache.statistics = counters.snapshot();
  cache.regions = read_regions(file.descriptor(), header.slots_used.load(std::memory_order_relaxed));
  return cache;
}

/// Calls `visit(path, name)` for each file in `folder` that has the name of one of this user's.
template <typename Visit>
void for_each_publication(const std::string& folder, Visit&& visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
    const auto name = parse_publication_name(entry->d_name);
    if (name && name->user == ::geteuid()) {
      visit(folder + "/" + entry->d_name, *name);
    }
  }
}

/// Takes a number and the dot or end after it off the front of `text`.
template <typename Number>
bool take_number(std::string_view& text, Number& number, bool last) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || stop == text.data()) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  if (last) {
    return text.empty();
  }
  if (text.empty() || text.front() != '.') {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string format_publication_name(const PublicationName& name) {
  return std::string(name_prefix) + std::to_string(name.user) + "." + std::to_string(name.process) + "." +
         std::to_string(name.instance);
}

std::optional<PublicationName> parse_publication_name(std::string_view text) {
  PublicationName name;
  if (!text.starts_with(name_prefix)) {
    return std::nullopt;
  }
  text.remove_prefix(name_prefix.size());
  if (!take_number(text, name.user, false) || !take_number(text, name.process, false) ||
      !take_number(text, name.instance, true) || name.process <= 0) {
    return std::nullopt;
  }
  return name;
}

void remove_abandoned_publications(const std::string& folder) {
  for_each_publication(folder, [](const std::string& path, const PublicationName& name) {
    if (!process_start_time(name.process)) {
      const OpenFile file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
      remove_if_abandoned(path, file.descriptor());
    }
  });
}

std::vector<ObservedCache> observe_caches(const std::string& folder) {
  std::vector<ObservedCache> caches;
  for_each_publication(folder, [&](const std::string& path, const PublicationName& name) {
    if (auto cache = observe_cache(path, name)) {
      caches.push_back(std::move(*cache));
    }
  });
  std::ranges::sort(caches, {}, [](const ObservedCache& cache) { return std::tuple(cache.process, cache.instance); });
  return caches;
}

}  // namespace tiermap
