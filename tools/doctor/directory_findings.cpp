#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "config/size.hpp"
#include "doctor/finding.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t block_bytes = 4096;

/// A file without a name in the directory; gone when closed.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& directory) {
    descriptor_ = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (descriptor_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
      std::string path = directory + "/.tiermap-doctor-XXXXXX";
      descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
      if (descriptor_ >= 0) {
        ::unlink(path.c_str());
      }
    }
    error_number_ = descriptor_ < 0 ? errno : 0;
  }
  ~ScratchFile() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  int descriptor() const { return descriptor_; }
  int error_number() const { return error_number_; }

 private:
  int descriptor_ = -1;
  int error_number_ = 0;
};

/// The least unit in which a file with O_DIRECT can be read; 0 and errno if it cannot be written or read at all.
std::size_t direct_alignment(int descriptor) {
  const std::unique_ptr<void, void (*)(void*)> buffer(std::aligned_alloc(block_bytes, 2 * block_bytes), std::free);
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (::pwrite(descriptor, buffer.get(), 2 * block_bytes, 0) < 0 || ::fsync(descriptor) != 0 ||
      ::fcntl(descriptor, F_SETFL, flags | O_DIRECT) != 0) {
    return 0;
  }
  for (std::size_t unit = 512; unit <= block_bytes; unit *= 2) {
    void* unaligned_by_unit = static_cast<char*>(buffer.get()) + unit % block_bytes;
    if (::pread(descriptor, unaligned_by_unit, unit, static_cast<off_t>(unit)) == static_cast<ssize_t>(unit)) {
      return unit;
    }
  }
  return 0;
}

Finding examine_direct(const std::string& section, int descriptor) {
  if (const std::size_t unit = direct_alignment(descriptor); unit != 0) {
    return {section, "O_DIRECT", Finding::State::good, "works, in units of " + std::to_string(unit) + " bytes", ""};
  }
  return {section, "O_DIRECT", Finding::State::limited, describe_error(errno),
          "keep data on ext4, XFS or another file system with direct I/O; here reads go through the page cache"};
}

Finding examine_mmap(const std::string& section, int descriptor) {
  void* memory = MAP_FAILED;
  if (::ftruncate(descriptor, block_bytes) == 0) {
    memory = ::mmap(nullptr, block_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (memory == MAP_FAILED) {
    return {section, "mmap", Finding::State::limited, describe_error(errno),
            "fault mode kernel cannot be used here: use another file system, or allow userfaultfd"};
  }
  ::munmap(memory, block_bytes);
  return {section, "mmap", Finding::State::good, "works", ""};
}

/// How far mmap itself reads ahead; of the disk, for a partition of it.
Finding examine_read_ahead(const std::string& section, dev_t device) {
  const std::string number = std::to_string(major(device)) + ":" + std::to_string(minor(device));
  for (const std::string& path :
       {"/sys/class/bdi/" + number + "/read_ahead_kb", "/sys/dev/block/" + number + "/queue/read_ahead_kb",
        "/sys/dev/block/" + number + "/../queue/read_ahead_kb"}) {
    if (const std::string value = read_line(path); !value.empty()) {
      return {section, "read_ahead_kb", Finding::State::good, value, ""};
    }
  }
  return {section, "read_ahead_kb", Finding::State::good, "none: no block device of its own", ""};
}

}  // namespace

Findings examine_directory(const std::string& path) {
  struct stat status{};
  const int result = ::stat(path.c_str(), &status);
  if (result != 0 || !S_ISDIR(status.st_mode)) {
    throw OptionError("directory " + quote_value(path) + " cannot be examined (" +
                      describe_error(result != 0 ? errno : ENOTDIR) + "): name an existing directory");
  }
  const std::string section = "directory " + path;
  const ScratchFile file(path);
  Findings findings;
  if (file.error_number() != 0) {
    findings.push_back({section, "write", Finding::State::limited, describe_error(file.error_number()),
                        "files here can be mapped read-only at best: give permission, or free space, to examine more"});
  } else {
    findings.push_back({section, "write", Finding::State::good, "works", ""});
    findings.push_back(examine_direct(section, file.descriptor()));
    findings.push_back(examine_mmap(section, file.descriptor()));
  }
  findings.push_back(examine_read_ahead(section, status.st_dev));
  return findings;
}

}  // namespace tiermap
