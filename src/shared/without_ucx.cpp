// Jobs where Tiermap was built without UCX: there are none, and so nothing else here is ever called.
#ifndef TIERMAP_UCP_LIBRARY

#include <cerrno>
#include <cstdlib>

#include "platform/address_range.hpp"
#include "tiermap/error.hpp"
#include "tiermap/job.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {

class JobImplementation {};
class SharedImplementation {};
class ChangeSender {};

Job::Job(const JobOptions&) {
  throw StoreError(ENOTSUP,
                   "a job: this Tiermap was built without UCX: install libucx-dev and libssl-dev and build it with "
                   "-DTIERMAP_UCX=ON");
}
Job::~Job() = default;
std::uint32_t Job::rank() const noexcept {
  std::abort();
}
std::uint32_t Job::ranks() const noexcept {
  std::abort();
}
std::vector<std::uint32_t> Job::lost_ranks() const {
  std::abort();
}
void Job::barrier() {
  std::abort();
}
std::vector<std::vector<std::byte>> Job::gather(std::span<const std::byte>) {
  std::abort();
}
JobAddresses Job::reserve_addresses(std::uint64_t) {
  std::abort();
}
bool Job::is_first_to_tell() {
  std::abort();
}
JobLock Job::lock(const std::string&) {
  std::abort();
}
std::uint64_t Job::fetch_add(const std::string&, std::uint64_t) {
  std::abort();
}
void Job::end() {
  std::abort();
}

JobAddresses::JobAddresses(std::unique_ptr<AddressRange> range) noexcept : range_(std::move(range)) {}
JobAddresses::JobAddresses(JobAddresses&&) noexcept = default;
JobAddresses& JobAddresses::operator=(JobAddresses&&) noexcept = default;
JobAddresses::~JobAddresses() = default;
void* JobAddresses::data() const noexcept {
  std::abort();
}
std::size_t JobAddresses::size() const noexcept {
  std::abort();
}

JobLock::JobLock(std::shared_ptr<JobImplementation>, std::string, std::optional<std::uint32_t>) {}
JobLock::~JobLock() = default;
void JobLock::unlock() {}

SharedStorage::SharedStorage(std::shared_ptr<JobImplementation>, const std::string&, const ElementLayout&,
                             std::optional<std::uint64_t>, const SharedVectorOptions&) {
  std::abort();
}
SharedStorage::SharedStorage(SharedStorage&&) noexcept = default;
SharedStorage& SharedStorage::operator=(SharedStorage&&) noexcept = default;
SharedStorage::~SharedStorage() = default;
VectorStorage& SharedStorage::vector() const noexcept {
  std::abort();
}
const std::string& SharedStorage::name() const noexcept {
  std::abort();
}
void SharedStorage::acquire() {}
void SharedStorage::release() {}
void SharedStorage::set_phase(Phase) {}
void SharedStorage::place_by_score() {}
Phase SharedStorage::phase() const noexcept {
  std::abort();
}
void SharedStorage::require_writable() const {}
VectorRange SharedStorage::own_partition() const {
  std::abort();
}
void SharedStorage::update(VectorRange, const std::function<void(std::byte*)>&) {}
void SharedStorage::start_together(VectorRange) {}
void SharedStorage::stop_together(VectorRange) noexcept {}
void SharedStorage::copy_out(VectorRange, std::span<std::byte>) {}
void SharedStorage::copy_in(VectorRange, std::span<const std::byte>) {}
std::uint64_t SharedStorage::reserve(std::uint64_t) {
  std::abort();
}
std::uint64_t SharedStorage::appended() const {
  std::abort();
}
void SharedStorage::save(const std::string&) {}
void SharedStorage::load(const std::string&) {}
void SharedStorage::close() {}
void SharedStorage::destroy() {}
SharedStatistics SharedStorage::statistics() const {
  std::abort();
}

SharedSender::SharedSender(SharedStorage& storage) : vector_(*storage.implementation_) {}
SharedSender::~SharedSender() = default;
void SharedSender::send(std::uint64_t, std::span<const std::byte>) {}
void SharedSender::finish() {}
void SharedSender::drop_sent() {}

}  // namespace tiermap

#endif
