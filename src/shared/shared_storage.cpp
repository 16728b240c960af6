// Public members of SharedStorage and SharedSender, of which SharedVector<T> is made.
#include <cerrno>
#include <exception>
#include <string>
#include <utility>

#include "shared/shared_implementation.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

SharedStorage::SharedStorage(std::shared_ptr<JobImplementation> job, const std::string& name,
                             const ElementLayout& elements, std::optional<std::uint64_t> count,
                             const SharedVectorOptions& options)
    : implementation_(std::make_unique<SharedImplementation>(std::move(job), name, elements, count, options)) {}
SharedStorage::SharedStorage(SharedStorage&&) noexcept = default;
SharedStorage& SharedStorage::operator=(SharedStorage&&) noexcept = default;
SharedStorage::~SharedStorage() = default;

VectorStorage& SharedStorage::vector() const noexcept {
  return implementation_->vector();
}

const std::string& SharedStorage::name() const noexcept {
  return implementation_->name();
}

void SharedStorage::acquire() {
  implementation_->acquire();
}

void SharedStorage::release() {
  implementation_->release();
}

void SharedStorage::set_phase(Phase phase) {
  implementation_->set_phase(phase);
}

void SharedStorage::place_by_score() {
  implementation_->place_by_score();
}

Phase SharedStorage::phase() const noexcept {
  return implementation_->phase();
}

void SharedStorage::require_writable() const {
  implementation_->require_writable();
}

VectorRange SharedStorage::own_partition() const {
  const JobPlace& place = implementation_->job().place();
  return partition(implementation_->vector().size(), place.rank, place.ranks);
}

void SharedStorage::update(VectorRange range, const std::function<void(std::byte*)>& change) {
  implementation_->update(range, change);
}

void SharedStorage::start_together(VectorRange range) {
  implementation_->start_together(range);
}

void SharedStorage::stop_together(VectorRange range) noexcept {
  implementation_->stop_together(range);
}

void SharedStorage::copy_out(VectorRange range, std::span<std::byte> to) {
  implementation_->copy_out(range, to);
}

void SharedStorage::copy_in(VectorRange range, std::span<const std::byte> from) {
  implementation_->require_writable();
  static_cast<void>(implementation_->vector().bytes_of(range));
  SharedSender sender(*this);
  sender.send(range.first, from);
  sender.finish();
}

std::uint64_t SharedStorage::reserve(std::uint64_t count) {
  return implementation_->reserve(count);
}

std::uint64_t SharedStorage::appended() const {
  return implementation_->appended();
}

void SharedStorage::save(const std::string& url) {
  implementation_->save(url);
}

void SharedStorage::load(const std::string& url) {
  implementation_->load(url);
}

void SharedStorage::close() {
  implementation_->close();
}

void SharedStorage::destroy() {
  implementation_->destroy();
}

SharedStatistics SharedStorage::statistics() const {
  return implementation_->statistics();
}

SharedSender::SharedSender(SharedStorage& storage)
    : vector_(*storage.implementation_), sender_(std::make_unique<ChangeSender>(vector_.home())) {}

SharedSender::~SharedSender() {
  sender_.reset();
  try {
    drop_sent();
  } catch (const std::exception&) {  // Who touches a page then is told.
  }
}

// What this rank wrote to the same pages before goes home before.
void SharedSender::send(std::uint64_t first, std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    return;
  }
  const ByteRange range{first * vector_.vector().element_bytes(), bytes.size()};
  vector_.drop(range);
  {
    const PlacingGate::Pass pass(vector_.home().gate());
    sender_->add(range.offset, bytes);
  }
  if (!sent_.empty() && sent_.back().offset + sent_.back().bytes == range.offset) {
    sent_.back().bytes += range.bytes;
  } else {
    sent_.push_back(range);
  }
}

void SharedSender::finish() {
  std::string failure;
  int result = 0;
  {
    const PlacingGate::Pass pass(vector_.home().gate());
    result = sender_->finish();
    failure = vector_.home().failure();
  }
  drop_sent();
  if (result != 0) {
    throw StoreError(-result, failure);
  }
}

// Of what is home now, be it all of it or a part, frames may have what was there before; to this rank it is no news.
void SharedSender::drop_sent() {
  for (const ByteRange& range : std::exchange(sent_, {})) {
    vector_.drop(range);
  }
}

}  // namespace tiermap
