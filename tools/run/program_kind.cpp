#include "run/program_kind.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "run/go_program.hpp"
#include "store/file_descriptor.hpp"

namespace tiermap {
namespace {

#if defined(__x86_64__)
constexpr int own_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int own_machine = EM_AARCH64;
#else
constexpr int own_machine = EM_NONE;
#endif

bool is_program(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

/// As execvp() looks.
std::string find_program(const std::string& name, int& error_number) {
  error_number = ENOENT;
  const auto try_path = [&](const std::string& path) {
    if (is_program(path)) {
      return true;
    }
    error_number = ::access(path.c_str(), F_OK) == 0 ? EACCES : error_number;
    return false;
  };
  if (name.find('/') != std::string::npos) {
    return try_path(name) ? name : "";
  }
  const char* variable = std::getenv("PATH");
  const std::string_view folders = variable == nullptr ? "/bin:/usr/bin" : variable;
  for (std::size_t start = 0; start <= folders.size() && !name.empty();) {
    const std::size_t end = std::min(folders.find(':', start), folders.size());
    const std::string folder(end == start ? "." : folders.substr(start, end - start));
    if (const std::string path = folder + "/" + name; try_path(path)) {
      return path;
    }
    start = end + 1;
  }
  return "";
}

/// Programs that run with another's rights do not take libraries from the environment.
bool changes_rights(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    return false;
  }
  const bool user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid();
  const bool group = (status.st_mode & S_ISGID) != 0 && status.st_gid != ::getgid();
  const bool capabilities = ::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  return user || group || capabilities;
}

/// The name of the dynamic linker; empty for a program that needs none.
std::string linker_of(int descriptor, const Elf64_Ehdr& header) {
  for (unsigned index = 0; index < header.e_phnum; ++index) {
    Elf64_Phdr part = {};
    const auto offset = static_cast<off_t>(header.e_phoff + std::uint64_t{index} * header.e_phentsize);
    if (::pread(descriptor, &part, sizeof part, offset) != sizeof part) {
      break;
    }
    if (part.p_type == PT_INTERP) {
      std::array<char, 256> name{};
      const auto bytes = std::min<std::uint64_t>(part.p_filesz, name.size() - 1);
      if (::pread(descriptor, name.data(), bytes, static_cast<off_t>(part.p_offset)) > 0) {
        return name.data();
      }
    }
  }
  return "";
}

std::string obstacle_of_elf(int descriptor) {
  Elf64_Ehdr header = {};
  if (::pread(descriptor, &header, sizeof header, 0) != sizeof header) {
    return "is no whole program";
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || (own_machine != EM_NONE && header.e_machine != own_machine)) {
    return "is for another kind of processor";
  }
  const std::string linker = linker_of(descriptor, header);
  if (linker.empty()) {
    return "is linked statically";
  }
  return linker.find("musl") != std::string::npos ? "is linked against another C library (" + linker + ")" : "";
}

/// The interpreter that the first line of a script names.
std::string interpreter_of(const char* text) {
  std::string_view line(text);
  line = line.substr(2, line.find('\n') - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  std::string program(line.substr(0, line.find_first_of(" \t\r")));
  // env looks for the next word in the PATH.
  if (program.ends_with("/env") && line.size() > program.size()) {
    line.remove_prefix(program.size());
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    int error_number = 0;
    if (std::string found = find_program(std::string(line.substr(0, line.find_first_of(" \t\r"))), error_number);
        !found.empty()) {
      return found;
    }
  }
  return program;
}

std::string obstacle_of(const std::string& path, int depth, bool& go) {
  constexpr int most_interpreters = 4;
  if (changes_rights(path)) {
    return "runs with other rights than yours (set-user-ID, set-group-ID or capabilities)";
  }
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 256> start{};
  if (!file.valid() || ::pread(file.get(), start.data(), start.size() - 1, 0) <= 0) {
    return "";  // It cannot be looked at; whether it runs is the kernel's to say.
  }
  if (std::string_view(start.data(), 4) == ELFMAG) {
    go = is_go_program(file.get());
    return obstacle_of_elf(file.get());
  }
  if (std::string_view(start.data(), 2) == "#!" && depth < most_interpreters) {
    return obstacle_of(interpreter_of(start.data()), depth + 1, go);
  }
  return "";
}

}  // namespace

ProgramKind examine_program(const std::string& name) {
  ProgramKind kind;
  kind.path = find_program(name, kind.error_number);
  if (!kind.path.empty()) {
    kind.error_number = 0;
    kind.obstacle = obstacle_of(kind.path, 0, kind.go);
  }
  return kind;
}

}  // namespace tiermap
