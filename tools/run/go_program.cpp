#include "run/go_program.hpp"

#include <elf.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

using std::string_view_literals::operator""sv;

namespace tiermap {
namespace {

template <typename Part>
bool read_part(int descriptor, Part& part, std::uint64_t offset) noexcept {
  return ::pread(descriptor, &part, sizeof part, static_cast<off_t>(offset)) == sizeof part;
}

}  // namespace

bool is_go_program(int descriptor) noexcept {
  Elf64_Ehdr header = {};
  Elf64_Shdr names = {};
  if (!read_part(descriptor, header, 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return false;
  }
  const auto section_at = [&](unsigned index) { return header.e_shoff + std::uint64_t{index} * header.e_shentsize; };
  if (header.e_shoff == 0 || !read_part(descriptor, names, section_at(header.e_shstrndx))) {
    return false;
  }
  for (unsigned index = 0; index < header.e_shnum; ++index) {
    constexpr std::string_view of_go = ".go.buildinfo\0"sv;
    Elf64_Shdr section = {};
    std::array<char, of_go.size()> name{};
    if (!read_part(descriptor, section, section_at(index))) {
      return false;
    }
    if (read_part(descriptor, name, names.sh_offset + section.sh_name) &&
        std::string_view(name.data(), name.size()) == of_go) {
      return true;
    }
  }
  return false;
}

}  // namespace tiermap
