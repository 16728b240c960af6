// Lines on standard error, as UMAP_LOG_LEVEL allows: ERROR (where it is not set), WARNING, INFO, DEBUG, or NONE.
#pragma once

#include <string>
#include <string_view>

namespace tiermap::umap_interface {

enum class LogLevel : unsigned char { none, error, warning, info, debug };

/// What the variable says, in capitals or not; what it cannot mean is told once, and taken as ERROR. Read once.
LogLevel log_level() noexcept;

/// Writes "umap: TEXT", in one piece, if `level` is allowed. Leaves errno alone.
void log(LogLevel level, std::string_view text) noexcept;
/// The same, of the same text once in a process.
void log_once(LogLevel level, const std::string& text) noexcept;
/// Around a fork(): no other thread is in log_once() then, of which the child would wait for ever.
void hold_log() noexcept;
void release_log() noexcept;

}  // namespace tiermap::umap_interface
