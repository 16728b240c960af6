// Programs with Go's runtime in them.
#pragma once

namespace tiermap {

/// Whether the ELF file has what Go's linker puts into every program: such a one calls the kernel itself, also to end,
/// so that no library sees what it does with a file.
bool is_go_program(int descriptor) noexcept;

}  // namespace tiermap
