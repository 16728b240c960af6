// Whatever comes over the wire, taking it apart ends within its bytes, and what is read is what is said again. The
// input is a frame as a peer sends it; then it is the body of a message whose checksum is right, of every kind that has
// one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/job/job_protocol.hpp"
#include "cluster/memory_protocol.hpp"
#include "cluster/wire/message.hpp"

namespace {

using tiermap::WireMessage;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

bool within(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void take_frame(std::span<const std::byte> frame) {
  std::span<const std::byte> rest = frame;
  for (;;) {
    const std::optional<std::size_t> length = tiermap::message_length(rest);
    const std::size_t before = rest.size();
    const auto message = tiermap::take_message(rest);
    if (!message.has_value()) {
      break;
    }
    require(length == before - rest.size());
    require(within(message->body, frame) && within(rest, frame));
    require(message->header.role >= tiermap::MessageHeader::Role::request &&
            message->header.role <= tiermap::MessageHeader::Role::control);
  }
}

template <typename Told>
void says_it_again(const std::vector<std::byte>& said, std::optional<Told> (*decode)(std::span<const std::byte>)) {
  const std::optional<Told> again = decode(said);
  require(again.has_value() && encode(*again) == said);
}

void take_body(std::span<const std::byte> body) {
  if (const auto facts = tiermap::decode_facts(body)) {
    says_it_again(encode(*facts), tiermap::decode_facts);
  }
  if (const auto form = tiermap::decode_form(body)) {
    require(form->layout.servers <= 1024 && form->layout.index <= 1024 && form->layout.copies <= 1024);
    says_it_again(encode(*form), tiermap::decode_form);
  }
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  for (const tiermap::DataSetLine& line : tiermap::decode_lines(text)) {
    require(line.name.size() <= text.size() && line.name.find_first_of("\t\n") == std::string::npos);
  }
  if (tiermap::is_plain_name(text)) {
    require(text.size() <= 64 && text.find_first_of("/\n\t ,") == std::string_view::npos && text.front() != '.');
  }
  constexpr std::uint64_t limit = 1 << 20;
  std::vector<tiermap::ScoredRange> scores;
  if (tiermap::decode_scores(body, limit, scores) == 0) {
    require(!scores.empty() && scores.size() <= tiermap::most_scored_ranges);
    for (const tiermap::ScoredRange& range : scores) {
      require(range.bytes > 0 && range.offset <= limit && range.bytes <= limit - range.offset);
    }
    require(std::ranges::equal(std::as_bytes(std::span(scores)), body));
  } else {
    require(scores.empty());
  }
  std::vector<tiermap::Change> changes;
  if (tiermap::decode_changes(body, limit, changes)) {
    tiermap::ChangeList list;
    std::uint64_t end = 0;
    for (const tiermap::Change& change : changes) {
      require(within(change.bytes, body) && change.offset >= end && change.offset <= limit &&
              change.bytes.size() <= limit - change.offset);
      end = change.offset + change.bytes.size();
      list.add(change.offset, change.bytes);
    }
    std::vector<tiermap::Change> again;
    require(tiermap::decode_changes(list.encoded(), limit, again));
  }
}

/// A message whose checksum is right arrives as it was sent.
void send_and_take(std::span<const std::byte> body) {
  const tiermap::WireWords words = {body.size(), 1, ~std::uint64_t{0}, 0};
  const tiermap::SealedMessage sealed = WireMessage(7, words, body).seal(42);
  std::span<const std::byte> rest(sealed.bytes.get(), sealed.length);
  const auto message = tiermap::take_message(rest);
  require(message.has_value() && message->intact && rest.empty());
  require(message->header.id == 42 && message->header.kind == 7 && message->header.words == words);
  require(std::ranges::equal(message->body, body));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  take_frame(input);
  take_body(input);
  send_and_take(input);
  return 0;
}
