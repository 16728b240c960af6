#include "cluster/remote/memory_client.hpp"

#include <cerrno>

#include "config/size.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

WireMessage message(MemoryRequest kind, const WireWords& words, std::string_view text) {
  return {static_cast<std::uint16_t>(kind), words, std::as_bytes(std::span(text))};
}

}  // namespace

MemoryClient::MemoryClient(Wire& wire, const HostAndPort& server, const WireLogin& login)
    : server_(server.text()), connection_(wire.connect(server, login)) {}

WireReply MemoryClient::ask(WireMessage request) {
  return require_success(connection_->call(std::move(request)));
}

WireReply MemoryClient::ask_patiently(WireMessage request) {
  return require_success(connection_->start(std::move(request), std::nullopt).wait());
}

WireReply MemoryClient::require_success(WireReply reply) const {
  if (reply.status != 0) {
    const std::string words = reply.body.text();
    const std::string why = !words.empty()        ? ": " + words
                            : connection_->open() ? " answers: " + error_text(-reply.status)
                                                  : " " + connection_->failure();
    throw StoreError(-reply.status, "server " + quote_value(server_) + why);
  }
  return reply;
}

std::vector<DataSetLine> MemoryClient::list(const std::string& name) {
  return decode_lines(ask(message(MemoryRequest::list, {}, name)).body.text());
}

void MemoryClient::create(const CreateForm& form, std::uint64_t bytes, bool temporary) {
  ask_patiently(
      WireMessage(static_cast<std::uint16_t>(MemoryRequest::create), {bytes, temporary ? 1U : 0U, 0, 0}, encode(form)));
}

void MemoryClient::drop(const std::string& name) {
  ask_patiently(message(MemoryRequest::drop, {}, name));
}

std::uint64_t MemoryClient::attach(const std::string& name, bool writing, DataSetFacts& facts) {
  const WireReply reply = ask(message(MemoryRequest::attach, {writing ? 1U : 0U, 0, 0, 0}, name));
  const std::optional<DataSetFacts> told = decode_facts(reply.body.bytes());
  if (!told.has_value()) {
    throw StoreError(EPROTO, "server " + quote_value(server_) + " does not say what the data set is");
  }
  facts = *told;
  return reply.words[0];
}

}  // namespace tiermap
