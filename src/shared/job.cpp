// Public members of Job and JobLock, and what is behind them.
#include "tiermap/job.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "config/size.hpp"
#include "platform/address_range.hpp"
#include "shared/common_addresses.hpp"
#include "shared/job_implementation.hpp"
#include "shared/shared_implementation.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

void JobImplementation::require_here() const {
  if (in_child()) {
    throw StoreError(ECHILD, "job " + quote_value(place().name) + ": rank " + std::to_string(place().rank) +
                                 " is the process that forked this one: leave the job to it");
  }
}

void JobImplementation::claim(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (!names_.insert(name).second) {
    throw OptionError("job " + quote_value(place().name) + " has a vector " + quote_value(name) +
                          " already: choose another name, or destroy it first",
                      EEXIST);
  }
}

void JobImplementation::give_back(const std::string& name) noexcept {
  const std::lock_guard lock(mutex_);
  names_.erase(name);
}

void JobImplementation::add(SharedImplementation& vector) {
  const std::lock_guard lock(mutex_);
  vectors_.push_back(&vector);
}

void JobImplementation::remove(SharedImplementation& vector) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(vectors_, &vector);
}

void JobImplementation::release_all() {
  require_here();
  const std::lock_guard lock(mutex_);
  for (SharedImplementation* const vector : vectors_) {
    vector->release();
  }
}

void JobImplementation::acquire_all() {
  const std::lock_guard lock(mutex_);
  for (SharedImplementation* const vector : vectors_) {
    vector->acquire();
  }
}

void JobImplementation::barrier() {
  release_all();
  client_.collective("is at a barrier");
  acquire_all();
}

std::optional<std::uint32_t> JobImplementation::lock(const std::string& name) {
  require_here();
  const std::optional<std::uint32_t> lost_holder = client_.lock(name);
  try {
    acquire_all();
    return lost_holder;
  } catch (const std::exception& error) {
    if (lost_holder.has_value()) {
      // Nobody else will be told of that rank: so the next one is to be told of this one.
      client_.fail("job " + quote_value(place().name) + ": rank " + std::to_string(place().rank) +
                   " could not see what the lock " + quote_value(name) + " protects, which rank " +
                   std::to_string(*lost_holder) + " was lost with, and ended: " + error.what());
    } else {
      client_.unlock(name);
    }
    throw;
  }
}

void JobImplementation::unlock(const std::string& name) {
  release_all();
  client_.unlock(name);
}

void JobImplementation::unlock_or_fail(const std::string& name) noexcept {
  if (in_child()) {
    return;  // It is the parent's.
  }
  std::string why = "there is no memory to say why";
  try {
    unlock(name);
    return;
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = "for an unknown reason";
  }
  client_.fail("job " + quote_value(place().name) + ": rank " + std::to_string(place().rank) +
               " could not give up the lock " + quote_value(name) + ", and ended: " + why);
}

void JobImplementation::require_all_ranks(const std::string& doing) const {
  if (place().goes_on) {
    throw OptionError("job " + quote_value(place().name) + " goes on without ranks that it loses, and cannot " + doing +
                          ": do without, or do not set go_on_without_lost_ranks",
                      ENOTSUP);
  }
}

void JobImplementation::end() {
  require_here();
  {
    const std::lock_guard lock(mutex_);
    if (!vectors_.empty()) {
      throw OptionError("job " + quote_value(place().name) + " cannot end with vector " +
                        quote_value(vectors_.front()->name()) + " open: close it first");
    }
  }
  // Who waits for it would never come to end its part.
  if (const std::optional<std::string> lock = client_.held_lock(); lock.has_value()) {
    throw OptionError("job " + quote_value(place().name) + " cannot end with lock " + quote_value(*lock) +
                      " held: unlock it first");
  }
  client_.collective("ends the job");
  client_.leave();
}

JobLock::JobLock(std::shared_ptr<JobImplementation> job, std::string name, std::optional<std::uint32_t> lost_holder)
    : job_(std::move(job)), name_(std::move(name)), lost_holder_(lost_holder) {}

JobLock::~JobLock() {
  if (job_ != nullptr) {
    job_->unlock_or_fail(name_);
  }
}

void JobLock::unlock() {
  if (job_ != nullptr) {
    job_->unlock(name_);
    job_.reset();
  }
}

JobAddresses::JobAddresses(std::unique_ptr<AddressRange> range) noexcept : range_(std::move(range)) {}
JobAddresses::JobAddresses(JobAddresses&&) noexcept = default;
JobAddresses& JobAddresses::operator=(JobAddresses&&) noexcept = default;
JobAddresses::~JobAddresses() = default;

void* JobAddresses::data() const noexcept {
  return range_ != nullptr ? range_->data() : nullptr;
}

std::size_t JobAddresses::size() const noexcept {
  return range_ != nullptr ? range_->size() : 0;
}

Job::Job(const JobOptions& options) : implementation_(std::make_shared<JobImplementation>(job_place(options))) {}
Job::~Job() = default;

std::uint32_t Job::rank() const noexcept {
  return implementation_->place().rank;
}

std::uint32_t Job::ranks() const noexcept {
  return implementation_->place().ranks;
}

std::vector<std::uint32_t> Job::lost_ranks() const {
  return implementation_->client().lost();
}

void Job::barrier() {
  implementation_->barrier();
}

std::vector<std::vector<std::byte>> Job::gather(std::span<const std::byte> bytes) {
  return implementation_->client().gather(bytes);
}

JobAddresses Job::reserve_addresses(std::uint64_t bytes) {
  implementation_->require_all_ranks("reserve addresses");
  return JobAddresses(std::make_unique<AddressRange>(reserve_on_all_ranks(implementation_->client(), bytes)));
}

bool Job::is_first_to_tell() {
  return implementation_->client().is_first_to_tell();
}

JobLock Job::lock(const std::string& name) {
  const std::optional<std::uint32_t> lost_holder = implementation_->lock(name);
  return {implementation_, name, lost_holder};
}

std::uint64_t Job::fetch_add(const std::string& name, std::uint64_t summand) {
  return implementation_->client().fetch_add(name, summand);
}

void Job::end() {
  implementation_->end();
}

}  // namespace tiermap
