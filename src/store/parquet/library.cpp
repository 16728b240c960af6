#include "store/parquet/library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "platform/hold_over_forks.hpp"
#include "store/memory_store.hpp"
#include "tiermap/error.hpp"
#include "tiermap/version.hpp"

namespace tiermap {
namespace {

constinit std::mutex codec_mutex;
/// So that a child does not find the library in the middle of being loaded or used for the first time.
[[maybe_unused]] const int held_over_forks = hold_over_forks<codec_mutex>();
constinit const ParquetCodec* loaded_codec = nullptr;  // Under the mutex.

constexpr const char* library_name = "libtiermap_parquet.so";
constexpr const char* variable_name = "TIERMAP_PARQUET_LIBRARY";

[[noreturn]] void refuse_library(const std::string& url, std::string why) {
  std::replace(why.begin(), why.end(), '\n', ' ');
  throw StoreError(ENOTSUP, "store '" + url + "' needs " + library_name + ": " + why +
                                ": build it where pyarrow 26.0.1 is installed (docs/building.md), or name it by " +
                                variable_name);
}

/// Beside the library or program that this code is in, and where it is when those are in bin/ of the same prefix.
std::vector<std::filesystem::path> places_beside() {
  Dl_info here = {};
  if (::dladdr(reinterpret_cast<const void*>(&parquet_codec), &here) == 0 || here.dli_fname == nullptr) {
    return {};
  }
  std::error_code failed;
  std::filesystem::path folder = std::filesystem::canonical(here.dli_fname, failed).parent_path();
  if (failed) {
    // A program without a library of ours, started by a name alone.
    folder = std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  }
  return {folder / library_name, folder.parent_path() / "lib" / library_name,
          folder.parent_path() / TIERMAP_LIBRARY_FOLDER / library_name};
}

/// The file to load; by its name alone where the system is to look for it.
std::string library_file() {
  if (const char* const named = ::secure_getenv(variable_name); named != nullptr && *named != '\0') {
    return named;
  }
  for (const std::filesystem::path& place : places_beside()) {
    std::error_code failed;
    if (std::filesystem::exists(place, failed)) {
      return place;
    }
  }
  return library_name;
}

const ParquetCodec& load(const std::string& url) {
  const std::string file = library_file();
  // Never unloaded: Arrow has handlers for the end of the program.
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    refuse_library(url, ::dlerror());
  }
  const auto function = reinterpret_cast<ParquetCodecFunction>(::dlsym(library, parquet_codec_symbol));
  if (function == nullptr) {
    refuse_library(url, file + " is another library");
  }
  const ParquetCodec* const codec = function(TIERMAP_VERSION, parquet_codec_version);
  if (codec == nullptr) {
    refuse_library(url, file + " is of another version than this Tiermap, " TIERMAP_VERSION);
  }
  return *codec;
}

void use_once(const ParquetCodec& codec, const char* compression) {
  std::string file;
  if (!codec.make({{.name = "a", .type = "int64"}, {.name = "b", .type = "float64"}}, compression, 1, file).empty()) {
    return;
  }
  std::unique_ptr<ParquetReader> reader;
  if (!open_copy(codec, file, reader).empty()) {
    return;
  }
  std::array<char, 8> value = {};
  for (std::size_t column = 0; column < reader->columns().size(); ++column) {
    (void)reader->decode(0, column, {.first = value.data(), .stride = value.size()});
    (void)reader->encode(0, column, {.first = value.data(), .stride = value.size()}, file);
  }
}

/// Makes, reads and writes files in memory. Arrow has static variables of functions, made by the thread that comes
/// first: a child that is forked meanwhile would wait for that thread for ever.
void use_once(const ParquetCodec& codec) noexcept {
  for (const char* const compression : {"uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4"}) {
    try {
      use_once(codec, compression);
    } catch (const std::exception&) {
      // What is refused is told where a user's file needs it.
    }
  }
}

}  // namespace

const ParquetCodec& parquet_codec(const std::string& url) {
  const std::lock_guard lock(codec_mutex);
  if (loaded_codec == nullptr) {
    loaded_codec = &load(url);
    use_once(*loaded_codec);
  }
  return *loaded_codec;
}

ParquetFailure open_copy(const ParquetCodec& codec, const std::string& file, std::unique_ptr<ParquetReader>& reader) {
  auto memory = std::make_shared<MemoryStore>(file.size());
  memory->write(file.data(), file.size(), 0);
  return codec.open(std::move(memory), reader);
}

}  // namespace tiermap
