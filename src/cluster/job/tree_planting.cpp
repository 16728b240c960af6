// How the ranks of a job come to know each other, for pages that all read: where each listens, and who asks whom.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "cluster/job/job_client.hpp"
#include "cluster/job/rank_complaint.hpp"
#include "cluster/job/rank_tree.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr RankRemedy reach_each_other{EHOSTUNREACH,
                                      "have ranks reach each other, by the hosts that TIERMAP_RANK_HOST names"};

}  // namespace

std::vector<std::string> JobClient::texts_of_all(const std::string& own) {
  std::vector<std::string> texts;
  for (const std::vector<std::byte>& bytes : gather(std::as_bytes(std::span(own)))) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

// A rank that dies is complained of by others before they hear of it: all meet once more, where that is said.
std::vector<std::string> JobClient::texts_without_complaint(const std::string& own, const RankRemedy& remedy) {
  std::vector<std::string> texts = texts_of_all(own);
  try {
    require_no_complaint(place_.name, texts, remedy);
  } catch (const StoreError&) {
    collective("has heard a complaint");
    throw;
  }
  return texts;
}

std::string JobClient::own_host() const {
  return place_.host.empty() ? own_host_towards(place_.servers.front()) : place_.host;
}

/// Where, or a complaint.
std::string JobClient::listen_for_ranks() {
  if (!listening_.empty()) {
    return listening_;
  }
  try {
    const std::string host = own_host();
    listening_ = HostAndPort{host, wire_.listen({host, 0})}.text();
    return listening_;
  } catch (const Error& error) {
    return complaint_mark + std::string(" cannot listen: ") + error.what();
  }
}

void JobClient::plant_tree() {
  if (relay_.begun()) {
    return;
  }
  collective("joins a tree of degree " + std::to_string(place_.tree_degree));
  const std::vector<std::string> addresses = texts_without_complaint(listen_for_ranks(), reach_each_other);
  std::vector<std::string> hosts;
  hosts.reserve(addresses.size());
  for (const std::string& address : addresses) {
    hosts.push_back(parse_host_and_port(address, "rank").host);
  }
  const std::vector<std::uint32_t> parents = parents_in_tree(hosts, place_.tree_degree);
  std::vector<std::uint32_t> children;
  for (std::uint32_t rank = 0; rank < place_.ranks; ++rank) {
    if (parents[rank] == place_.rank) {
      children.push_back(rank);
    }
  }
  std::string complaint;
  const std::uint32_t parent = parents[place_.rank];
  try {
    const HostAndPort address = parent == no_parent ? HostAndPort() : parse_host_and_port(addresses[parent], "rank");
    relay_.begin(
        parent == no_parent ? nullptr : wire_.connect(address, place_.login),
        [this](const Piece& piece, std::function<void(WireReply)> done) { ask_home(piece, std::move(done)); },
        std::move(children));
  } catch (const Error& error) {
    complaint = complaint_mark + std::string(" does not reach rank ") + std::to_string(parent) + ": " + error.what();
  }
  try {
    texts_without_complaint(complaint, reach_each_other);
  } catch (...) {
    relay_.end();
    throw;
  }
}

void JobClient::ask_home(const Piece& piece, std::function<void(WireReply)> done) {
  if (piece.server >= servers()) {
    WireReply none;
    none.status = -EBADF;
    done(none);
    return;
  }
  connections_[piece.server]->start_then(
      WireMessage(static_cast<std::uint16_t>(JobRequest::fetch), {piece.handle, piece.offset, piece.bytes, 0}),
      std::nullopt, std::move(done));
}

}  // namespace tiermap
