// Opening what a store is made of, with errors that name the path and the remedy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/file_transfer.hpp"

namespace tiermap {

/// What every scheme over files lets its URL say.
struct FileOptions {
  bool direct = true;                      ///< Use O_DIRECT where the file system takes it.
  std::uint32_t max_reads_in_flight = 0;   ///< 0: no cap.
  std::uint32_t max_writes_in_flight = 0;  ///< 0: no cap.
};

/// "No such file or directory".
std::string error_text(int error_number);

/// Throws StoreError: "PATH DOING: ERROR TEXT: REMEDY".
[[noreturn]] void throw_file_error(int error_number, const std::string& path, const std::string& doing);

/// Whether something has this name. Throws StoreError where that cannot be found out, as of a name that is too long.
bool path_exists(const std::string& path);

/// Names in a file may be anything: for messages, what would end the line or is not printed becomes '?'.
std::string in_one_line(std::string_view text);

/// A regular file or a block device, open.
struct OpenedFile {
  DirectFile file;
  std::uint64_t bytes = 0;   ///< Its size when it was opened.
  bool regular = true;       ///< Not a block device: it can grow, and be cut.
  std::uint64_t device = 0;  ///< Device and inode tell files apart, whatever their paths.
  std::uint64_t inode = 0;
};

/// Opens a file that exists. Throws StoreError for one that is missing, may not be opened, or is a directory, FIFO,
/// socket or character device.
OpenedFile open_file(const std::string& path, bool writable, bool direct);

/// Makes a file of `bytes` bytes that read as zeros and take no room (sparse), and its directory entry durable. Throws
/// StoreError, EEXIST when the path is taken; nothing stays behind then.
OpenedFile create_file(const std::string& path, std::uint64_t bytes, bool direct);

/// That a file has this name survives a loss of power. Throws StoreError when the disk fails.
void make_name_durable(const std::string& path);

/// A file without a name in a directory, gone with its last descriptor. Invalid, with errno, where there can be none.
FileDescriptor open_nameless_file(const std::string& directory);

/// So many descriptors are left to the rest of the program.
inline constexpr std::uint64_t spare_descriptors = 64;
/// Lets this process have `descriptors` descriptors open, beside the spare ones, by raising its soft limit where that
/// is too low. False when the hard limit is below it.
bool allow_open_files(std::uint64_t descriptors);

/// The hard limit of open descriptors, at most 1,048,576.
std::uint64_t open_files_limit();

}  // namespace tiermap
