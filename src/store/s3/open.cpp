#include "store/s3/open.hpp"

#include <cerrno>
#include <utility>

#include "store/s3/library.hpp"
#include "store/s3/object_store.hpp"
#include "store/s3/written_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

std::unique_ptr<Store> open_s3(const StoreUrl& url, OpenMode mode, const NewStore& made) {
  const S3Place place = parse_s3_place(url);
  S3Settings settings = find_s3_settings(place);
  auto client = std::make_shared<S3Client>(load_curl(url.text), place, std::move(settings));
  S3Version version;
  const S3Failure failure = client->find(version);
  const bool may_create = mode == OpenMode::create || mode == OpenMode::open_or_create;
  // A bucket that is not there is not made.
  const bool missing = failure.error_number == ENOENT && failure.said.find("NoSuchBucket") == std::string::npos;
  if (failure.error_number != 0 && !(missing && may_create)) {
    throw StoreError(failure.error_number, "store '" + url.text + "': " + failure.text());
  }
  if (mode == OpenMode::create && version.exists()) {
    throw StoreError(EEXIST, "store '" + url.text + "': the object exists: open it instead, or remove it first");
  }
  if (mode == OpenMode::read_only) {
    return std::make_unique<S3ObjectStore>(std::move(client), std::move(version));
  }
  const std::uint64_t bytes = version.exists() ? version.bytes : made.bytes();
  return std::make_unique<S3WrittenStore>(std::move(client), std::move(version), bytes);
}

}  // namespace tiermap
