#include "command_line/message_counts.hpp"

#include <array>
#include <utility>
#include <vector>

namespace tiermap {
namespace {

constexpr std::array<std::pair<const char*, std::uint64_t MessageCounts::*>, 5> numbers = {
    {{"messages", &MessageCounts::messages},
     {"coherence_messages", &MessageCounts::coherence_messages},
     {"sent_bytes", &MessageCounts::sent_bytes},
     {"fetched_bytes", &MessageCounts::fetched_bytes},
     {"news_bytes", &MessageCounts::news_bytes}}};

}  // namespace

void MessageCounts::add(const SharedStatistics& statistics) {
  messages += statistics.fetches + statistics.sends + statistics.questions + statistics.exchanges + statistics.scores;
  coherence_messages += statistics.questions;
  sent_bytes += statistics.sent_bytes + statistics.score_bytes;
  fetched_bytes += statistics.fetched_bytes;
  news_bytes += statistics.news_bytes;
}

MessageCounts MessageCounts::operator-(const MessageCounts& before) const {
  MessageCounts difference;
  for (const auto& [name, number] : numbers) {
    difference.*number = this->*number - before.*number;
  }
  return difference;
}

void MessageCounts::describe(Ranks& ranks, nlohmann::ordered_json& fields) const {
  for (const auto& [name, number] : numbers) {
    std::vector<std::uint64_t> sum{this->*number};
    ranks.add_up(sum);
    fields[name] = sum.front();
  }
}

}  // namespace tiermap
