// Which of a job's servers are on the host of a rank.
#pragma once

#include <vector>

#include "cluster/job/job_client.hpp"

namespace tiermap {

/// By server. If this rank was given a host, those that are named by the same one, if there are any; else those whose
/// address is one of this machine's, as far as this process sees them.
std::vector<bool> servers_near(const JobPlace& place);

}  // namespace tiermap
