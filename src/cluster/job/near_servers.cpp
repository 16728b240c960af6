#include "cluster/job/near_servers.hpp"

#include <algorithm>
#include <string>

namespace tiermap {

std::vector<bool> servers_near(const JobPlace& place) {
  std::vector<bool> near;
  near.reserve(place.servers.size());
  for (const HostAndPort& server : place.servers) {
    near.push_back(!place.host.empty() && server.host == place.host);
  }
  if (std::ranges::find(near, true) == near.end()) {
    std::transform(place.servers.begin(), place.servers.end(), near.begin(), is_own_address);
  }
  return near;
}

const std::vector<bool>& JobClient::near_servers_of_all() {
  if (near_of_all_.empty()) {
    std::string own;
    for (const bool one : near_) {
      own += one ? 'y' : 'n';
    }
    std::vector<bool> of_all;
    for (std::string text : texts_of_all(own)) {  // Of a rank that was lost there is none.
      text.resize(servers(), 'n');
      for (const char one : text) {
        of_all.push_back(one == 'y');
      }
    }
    near_of_all_ = std::move(of_all);
  }
  return near_of_all_;
}

}  // namespace tiermap
