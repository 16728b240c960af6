// Why a mapping is left to the kernel where an option of `tiermap run` would have it served.
#pragma once

namespace tiermap::preload::reasons {

inline constexpr const char* excluded = "an --exclude names it";
inline constexpr const char* fits = "it fits in memory: the kernel is as good there as any (--serve-all serves it)";
inline constexpr const char* mapped_by_others =
    "another process maps the file as well, and one of the mappings can be written";
inline constexpr const char* not_matched = "no --match names it";
inline constexpr const char* only_reading = "it can be written, and --read-only is given";
inline constexpr const char* others_unknown =
    "it can be written, and no process can tell others what it maps (that takes room in /dev/shm)";
inline constexpr const char* private_and_not_matched = "it is private, and no --match names it";
inline constexpr const char* small = "smaller than --minimum-size";
inline constexpr const char* small_and_excluded = "smaller than --minimum-size, and an --exclude names it";
inline constexpr const char* small_and_not_matched = "smaller than --minimum-size, and no --match names it";
inline constexpr const char* small_and_private = "smaller than --minimum-size and private, and no --match names it";

}  // namespace tiermap::preload::reasons
