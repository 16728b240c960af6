// An object in S3, read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>

#include "store/s3/client.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Each read is a request for a range of one version of the object: where there is another one by now nothing is read
/// any more. Thread-safe.
class S3ObjectStore final : public Store {
 public:
  S3ObjectStore(std::shared_ptr<S3Client> client, S3Version version)
      : client_(std::move(client)), version_(std::make_shared<const S3Version>(std::move(version))) {}

  std::uint64_t size_bytes() const override { return version()->bytes; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::uint32_t max_reads_in_flight() const override { return client_->options().max_reads_in_flight; }
  std::string name() const override { return client_->url(); }

  std::shared_ptr<const S3Version> version() const;
  /// `change` makes another version of the object, with this mark, and says which. Whoever finds the old one gone
  /// meanwhile waits for that. Where it fails it may still be there later: see take_own_version().
  S3Failure replace(const std::string& commit, const std::function<S3Failure(S3Version& made)>& change);
  /// Where the object is not the version `gone` any more: whether it is one that was made here, by a change of which
  /// only the answer was lost. Then that is the version from now on.
  bool take_own_version(const std::shared_ptr<const S3Version>& gone);
  /// Returns the negative errno value. What went wrong is said on standard error, as nobody else has the words: once.
  int report(const S3Failure& failure) noexcept;

 private:
  void take(S3Version made);

  const std::shared_ptr<S3Client> client_;
  mutable std::mutex version_mutex_;
  std::shared_ptr<const S3Version> version_;
  std::shared_mutex replacing_;    ///< Shared: to see whether a version that is gone was replaced here. Taken first.
  std::set<std::string> unheard_;  ///< Marks of changes that failed as far as is known. Guarded by replacing_.
  std::mutex reported_mutex_;
  std::set<std::string> reported_;
};

}  // namespace tiermap
