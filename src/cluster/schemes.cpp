#include "cluster/schemes.hpp"

#include <cerrno>
#include <string>
#include <utility>

#ifdef TIERMAP_HAS_PARQUET
#include "store/parquet/open.hpp"
#endif
#ifdef TIERMAP_UCP_LIBRARY
#include "cluster/remote/open.hpp"
#include "cluster/remote/remote_store.hpp"
#endif
#include "tier/tiered_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::unique_ptr<Store> open_tiered(const StoreUrl& url, OpenMode mode, const NewStore& made) {
  UrlOptions options(url);
  const std::string backing = options.text("store");
  options.finish();
  const std::string example = "tiered:///tiers.yaml?store=/data/points.bin";
  const std::string path = percent_decode(local_path(url, example), url.text);
  if (backing.empty()) {
    throw StoreError(EINVAL, "store '" + url.text + "' names nothing behind its tiers: write " + example);
  }
  const TieringOptions tiering = read_tiering_options(path);
  check_tier_places(tiering);  // Before anything is created.
  return std::make_unique<TieredStore>(open_store(backing, mode, made), tiering);
}

std::unique_ptr<Store> open_parquet_url(const StoreUrl& url, OpenMode mode, const NewStore& made) {
#ifdef TIERMAP_HAS_PARQUET
  return open_parquet(url, mode, made, [](std::string_view behind, OpenMode how) { return open_store(behind, how); });
#else
  static_cast<void>(mode);
  static_cast<void>(made);
  throw StoreError(
      ENOTSUP, "store '" + url.text + "': this Tiermap was built without Parquet: build it with -DTIERMAP_PARQUET=ON");
#endif
}

#ifndef TIERMAP_UCP_LIBRARY
std::unique_ptr<Store> open_remote(const StoreUrl& url, OpenMode, const NewStore&) {
  throw StoreError(ENOTSUP, "store '" + url.text +
                                "': this Tiermap was built without UCX: install libucx-dev and libssl-dev and build it "
                                "with -DTIERMAP_UCX=ON");
}
#endif

}  // namespace

std::unique_ptr<Store> create_unkept_data_set(std::string_view url, std::uint64_t bytes) {
#ifdef TIERMAP_UCP_LIBRARY
  return create_unkept_remote(parse_store_url(url), bytes);
#else
  return open_remote(parse_store_url(url), OpenMode::create, NewStore{bytes, {}});
#endif
}

int keep_data_set([[maybe_unused]] Store& store) {
#ifdef TIERMAP_UCP_LIBRARY
  if (auto* const remote = dynamic_cast<RemoteStore*>(&store); remote != nullptr) {
    return remote->keep();
  }
#endif
  return -ENOTSUP;
}

StoreRegistry built_in_stores() {
  StoreRegistry registry = plain_stores();
  registry.add("tiered", open_tiered);
  registry.add("parquet", open_parquet_url);
  registry.add("remote", open_remote);
  return registry;
}

std::unique_ptr<Store> open_store(std::string_view url, OpenMode mode, std::uint64_t create_bytes) {
  return open_store(url, mode, new_store(create_bytes));
}

std::unique_ptr<Store> open_store(std::string_view url, OpenMode mode, const NewStore& made) {
  // No static of this function's: a child of a fork beside the first call would wait for its end for ever.
  return built_in_stores().open(url, mode, made);
}

}  // namespace tiermap
