// On which of the job's servers a shared vector's stripes lie.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "cluster/job/rank_complaint.hpp"
#include "config/size.hpp"
#include "shared/shared_implementation.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr RankRemedy when_done{EBUSY, "have all ranks be done with it, and place the vector then"};
constexpr RankRemedy stays{ENOSPC, "the vector stays where it was; placing it takes room for all of it once more"};
constexpr RankRemedy stays_whole{EIO, "the vector stays where it was"};

/// How much the ranks near each server want of each stripe, all of them together.
class WantedByServers {
 public:
  WantedByServers(std::uint64_t stripes, std::uint32_t servers, const std::vector<bool>& near)
      : servers_(servers), near_(near), wanted_(stripes * servers) {}

  void add(std::uint64_t stripe, std::uint32_t rank, std::uint64_t bytes) {
    for (std::uint32_t server = 0; server < servers_; ++server) {
      wanted_[stripe * servers_ + server] += near_[rank * servers_ + server] ? bytes : 0;
    }
  }
  /// Which server is to have each stripe; `present` says which has it now, or would have it.
  template <typename Present>
  std::vector<std::uint32_t> servers(const Present& present) const {
    std::vector<std::uint32_t> server_of(wanted_.size() / servers_);
    for (std::uint64_t stripe = 0; stripe < server_of.size(); ++stripe) {
      const std::span<const std::uint64_t> here(wanted_.data() + stripe * servers_, servers_);
      server_of[stripe] = server_that_wants_most(here, present(stripe), stripe);
    }
    return server_of;
  }

 private:
  const std::uint32_t servers_;
  const std::vector<bool>& near_;
  std::vector<std::uint64_t> wanted_;
};

std::uint64_t stripes_of(const std::string& name, std::uint64_t bytes, std::uint64_t stripe_bytes) {
  const std::uint64_t stripes = (bytes + stripe_bytes - 1) / stripe_bytes;
  if (stripes > StripeTable::most_stripes) {
    throw OptionError("shared vector " + quote_value(name) + " has " + std::to_string(stripes) + " stripes of " +
                      format_size(stripe_bytes) + ", and can be placed with " +
                      std::to_string(StripeTable::most_stripes) + ": choose larger ones");
  }
  return stripes;
}

/// What this rank carries: the stripes whose new server is near it, shared among those that are.
std::vector<ByteRange> own_share(const JobPlace& place, const std::vector<bool>& near,
                                 std::span<const std::uint32_t> server_of, std::uint64_t stripe_bytes,
                                 std::uint64_t bytes) {
  const std::size_t servers = place.servers.size();
  std::vector<std::vector<std::uint32_t>> carriers(servers);
  for (std::size_t server = 0; server < servers; ++server) {
    for (std::uint32_t rank = 0; rank < place.ranks; ++rank) {
      if (near[rank * servers + server]) {
        carriers[server].push_back(rank);
      }
    }
    if (carriers[server].empty()) {
      carriers[server].resize(place.ranks);
      std::iota(carriers[server].begin(), carriers[server].end(), 0);
    }
  }
  std::vector<ByteRange> share;
  for (std::uint64_t stripe = 0; stripe < server_of.size(); ++stripe) {
    const std::vector<std::uint32_t>& of_server = carriers[server_of[stripe]];
    if (of_server[stripe % of_server.size()] == place.rank) {
      const std::uint64_t first = stripe * stripe_bytes;
      share.push_back({first, std::min(stripe_bytes, bytes - first)});
    }
  }
  return share;
}

/// "", or what `work` throws, as a complaint.
std::string complaint_of(const std::string& doing, const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    return complaint_mark + (" cannot " + doing) + ": " + error.what();
  }
}

}  // namespace

std::shared_ptr<const StripeTable> SharedImplementation::table_by_partition(JobClient& client, const std::string& name,
                                                                            std::uint64_t count,
                                                                            std::uint64_t element_bytes,
                                                                            std::uint64_t stripe_bytes) {
  const JobPlace& place = client.place();
  if (client.servers() == 1) {
    return nullptr;
  }
  const std::uint64_t stripes = stripes_of(name, count * element_bytes, stripe_bytes);
  WantedByServers wanted(stripes, client.servers(), client.near_servers_of_all());
  for (std::uint32_t rank = 0; rank < place.ranks; ++rank) {
    const VectorRange own = partition(count, rank, place.ranks);
    std::uint64_t at = own.first * element_bytes;
    const std::uint64_t end = at + own.count * element_bytes;
    while (at < end) {
      const std::uint64_t here = std::min(end - at, stripe_bytes - at % stripe_bytes);
      wanted.add(at / stripe_bytes, rank, here);
      at += here;
    }
  }
  const auto striped = [&](std::uint64_t stripe) { return static_cast<std::uint32_t>(stripe % client.servers()); };
  return std::make_shared<const StripeTable>(client.servers(), wanted.servers(striped));
}

void SharedImplementation::require_placeable() const {
  if (!made_) {
    throw OptionError("shared vector " + quote_value(name_) +
                          " is a data set of its server, and stays there: make a vector, load it from that, and place "
                          "it",
                      ENOTSUP);
  }
  job_->require_all_ranks("place vector " + quote_value(name_));
  static_cast<void>(stripes_of(name_, whole_bytes(), stripe_bytes_));
}

// From where all have said what they want on, no rank asks the homes for anything or sends them anything: what is there
// stays as it is, and is the same in both places, until all have said that it is.
void SharedImplementation::place_by_score() {
  require_placeable();
  write_home();
  JobClient& client = job_->client();
  client.collective("places vector " + quote_value(name_) + " by score");
  {
    const PlacingGate::Closed closed(home_->gate());
    const std::vector<std::string> wishes = client.texts_without_complaint(own_wishes(), when_done);
    note_news();
    if (home_->wanted() != nullptr) {
      place_by_wishes(wishes);
      home_->wanted()->forget();
    }
  }
  drop_behind();
}

void SharedImplementation::place_by_wishes(const std::vector<std::string>& wishes) {
  JobClient& client = job_->client();
  WantedByServers wanted(home_->wanted()->stripes(), client.servers(), client.near_servers_of_all());
  for (std::uint32_t rank = 0; rank < wishes.size(); ++rank) {
    const auto add = [&](std::uint64_t stripe, std::uint64_t bytes) { wanted.add(stripe, rank, bytes); };
    if (!home_->wanted()->read(std::string_view(wishes[rank]).substr(1), add)) {
      throw StoreError(EBADMSG, "what ranks want of vector " + quote_value(name_) +
                                    " makes no sense: install the same Tiermap on all");
    }
  }
  const auto present = [&](std::uint64_t stripe) { return home_->placement().server(stripe * stripe_bytes_, 0); };
  const std::vector<std::uint32_t> server_of = wanted.servers(present);
  for (std::uint64_t stripe = 0; stripe < server_of.size(); ++stripe) {
    if (server_of[stripe] != present(stripe)) {
      move_to(server_of);
      return;
    }
  }
}

/// Or why it cannot be placed now.
std::string SharedImplementation::own_wishes() {
  if (store_->has_tree()) {
    return complaint_mark + (" reads vector " + quote_value(name_)) + " together";
  }
  if (home_->is_being_sent()) {
    return complaint_mark + (" has not committed what it writes or appends to vector " + quote_value(name_));
  }
  return "=" + (home_->wanted() == nullptr ? "" : home_->wanted()->text());
}

// The first rank makes what it is to be in, so that nothing is left of it if a server has no room.
void SharedImplementation::move_to(const std::vector<std::uint32_t>& server_of) {
  JobClient& client = job_->client();
  const std::string what = "vector " + quote_value(name_);
  const bool first = job_->place().rank == 0;
  const HomeClient::Form form{name_,
                              whole_bytes(),
                              stripe_bytes_,
                              true,
                              page_bytes_,
                              std::make_shared<const StripeTable>(client.servers(), server_of),
                              home_->placings() + 1 + given_up_};
  std::optional<HomeClient> other;
  const auto destroy = [&] {
    other->leave_tree();
    if (first) {
      other->destroy();
    }
  };
  std::string said;
  if (first) {
    said = complaint_of("have room for " + what, [&] { other.emplace(client, form); });
  }
  ++given_up_;
  client.texts_without_complaint(said, stays);
  if (!other.has_value()) {
    other.emplace(client, form);
  }
  const std::vector<ByteRange> share =
      own_share(job_->place(), client.near_servers_of_all(), server_of, stripe_bytes_, whole_bytes());
  said = complaint_of("move " + what, [&] { home_->carry_to(*other, share); });
  if (said.empty()) {
    const std::vector<std::uint64_t> own = other->sequences();
    said.assign("=").append(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(own[0]));
  }
  std::vector<std::uint64_t> sequences(client.servers());
  try {
    for (const std::string& text : client.texts_without_complaint(said, stays_whole)) {
      for (std::size_t server = 0; server < sequences.size(); ++server) {
        std::uint64_t one = 0;
        std::memcpy(&one, text.data() + 1 + server * sizeof(one), sizeof(one));
        sequences[server] = std::max(sequences[server], one);
      }
    }
  } catch (const StoreError& error) {
    if (error.code().value() != ECONNABORTED) {
      destroy();
    }
    throw;
  }
  home_->change_places(*other, sequences);
  given_up_ = 0;
  destroy();
}

}  // namespace tiermap
