#include "store/callback_store.hpp"

#include <cerrno>
#include <limits>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint32_t known_flags = TIERMAP_STORE_GROWABLE | TIERMAP_STORE_READS_IN_SIGNAL_HANDLER;

const tiermap_store_functions& checked(const tiermap_store_functions& functions) {
  if (functions.struct_bytes != sizeof(tiermap_store_functions)) {
    throw OptionError("struct_bytes " + std::to_string(functions.struct_bytes) + " of a store's functions is not " +
                      std::to_string(sizeof(tiermap_store_functions)) +
                      ": set it to sizeof(struct tiermap_store_functions) and build against this version");
  }
  if ((functions.flags & ~known_flags) != 0) {
    throw OptionError("flags " + std::to_string(functions.flags) +
                      " of a store's functions has unknown bits: use TIERMAP_STORE_ names only");
  }
  if (functions.size == nullptr || functions.read == nullptr) {
    throw OptionError(std::string(functions.size == nullptr ? "size" : "read") +
                      " of a store's functions is NULL: every store has a size and can be read");
  }
  return functions;
}

/// A count that a caller can trust.
std::int64_t checked_count(std::int64_t count, std::size_t asked) {
  return count > 0 && static_cast<std::uint64_t>(count) > asked ? -EIO : count;
}

int checked_status(int status) {
  return status > 0 ? -EIO : status;
}

}  // namespace

CallbackStore::CallbackStore(const tiermap_store_functions& functions)
    : functions_(checked(functions)), name_(functions.name != nullptr ? functions.name : "functions") {}

CallbackStore::~CallbackStore() {
  if (functions_.destroy != nullptr) {
    functions_.destroy(functions_.context);
  }
}

std::uint64_t CallbackStore::size_bytes() const {
  const std::int64_t size = functions_.size(functions_.context);
  return size < 0 ? 0 : static_cast<std::uint64_t>(size);
}

std::int64_t CallbackStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  return checked_count(functions_.read(functions_.context, buffer, bytes, offset), bytes);
}

std::int64_t CallbackStore::write(const void* buffer, std::size_t bytes, std::uint64_t offset) {
  if (!writable()) {
    return -EROFS;
  }
  return checked_count(functions_.write(functions_.context, buffer, bytes, offset), bytes);
}

int CallbackStore::flush() {
  return functions_.flush == nullptr ? 0 : checked_status(functions_.flush(functions_.context));
}

int CallbackStore::resize(std::uint64_t bytes) {
  return functions_.resize == nullptr ? -ENOTSUP : checked_status(functions_.resize(functions_.context, bytes));
}

}  // namespace tiermap
