// Address space that is free on all ranks of a job.
#pragma once

#include <cstdint>

#include "cluster/job/job_client.hpp"
#include "platform/address_range.hpp"

namespace tiermap {

/// By all ranks. Throws as Job::reserve_addresses().
AddressRange reserve_on_all_ranks(JobClient& job, std::uint64_t bytes);

}  // namespace tiermap
