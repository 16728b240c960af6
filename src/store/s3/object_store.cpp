#include "store/s3/object_store.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>

#include "platform/write_unless_closed.hpp"

namespace tiermap {
namespace {

constexpr std::size_t most_reports = 16;

}  // namespace

std::shared_ptr<const S3Version> S3ObjectStore::version() const {
  const std::lock_guard lock(version_mutex_);
  return version_;
}

std::int64_t S3ObjectStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  for (;;) {
    const std::shared_ptr<const S3Version> wanted = version();
    if (offset >= wanted->bytes || bytes == 0) {
      return 0;
    }
    const std::uint64_t count = std::min<std::uint64_t>(bytes, wanted->bytes - offset);
    const S3Failure failure =
        client_->read(*wanted, {static_cast<char*>(buffer), static_cast<std::size_t>(count)}, offset);
    if (failure.error_number == 0) {
      return static_cast<std::int64_t>(count);
    }
    {
      const std::shared_lock lock(replacing_);  // Until it is known whether it was us.
    }
    if (version() == wanted && !(failure.error_number == ESTALE && take_own_version(wanted))) {
      return report(failure);
    }
  }
}

S3Failure S3ObjectStore::replace(const std::string& commit, const std::function<S3Failure(S3Version& made)>& change) {
  const std::lock_guard replacing(replacing_);
  unheard_.insert(commit);
  S3Version made;
  S3Failure failure = change(made);
  if (failure.error_number == 0) {
    take(std::move(made));
  }
  return failure;
}

bool S3ObjectStore::take_own_version(const std::shared_ptr<const S3Version>& gone) {
  const std::lock_guard replacing(replacing_);
  if (version() != gone) {
    return true;  // Another thread was there first.
  }
  S3Version now;
  if (unheard_.empty() || client_->find(now).error_number != 0 || !unheard_.contains(now.commit)) {
    return false;
  }
  take(std::move(now));
  return true;
}

/// What was still on its way was for the version before, and comes too late now.
void S3ObjectStore::take(S3Version made) {
  unheard_.clear();
  const std::lock_guard lock(version_mutex_);
  version_ = std::make_shared<const S3Version>(std::move(made));
}

int S3ObjectStore::report(const S3Failure& failure) noexcept {
  try {
    const std::lock_guard lock(reported_mutex_);
    if (reported_.size() < most_reports && reported_.insert(failure.said).second) {
      tell_unless_closed("tiermap: store '" + name() + "': " + failure.text() + "\n");
    }
  } catch (const std::exception&) {  // Out of memory: the number has to do.
  }
  return -failure.error_number;
}

}  // namespace tiermap
