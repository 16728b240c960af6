// A rank that is nothing but its connections: a test says what it asks, in which order, and when which of them ends.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/job/job_protocol.hpp"
#include "cluster/wire/wire.hpp"
#include "shared/rank_processes.hpp"

namespace tiermap {

/// A rank of job "job" whose connections to its servers end when the test says so.
class BareRank {
 public:
  BareRank(const Servers& servers, std::uint32_t rank, std::uint32_t ranks, bool goes_on = false) {
    for (const auto& process : servers.processes) {
      connections_.push_back(wire_.connect(parse_host_and_port(process->address, "server"), WireLogin{}));
    }
    std::vector<WireCall> joining;
    for (std::size_t server = 0; server < connections_.size(); ++server) {
      const JobSize size{ranks, connections_.size(), server, goes_on};
      joining.push_back(start(server, JobRequest::join, {rank, size.word(), 0, 0}, "job"));
    }
    for (WireCall& call : joining) {
      EXPECT_EQ(call.wait().status, 0) << call.wait().body.text();
    }
  }
  WireCall start(std::size_t server, JobRequest kind, const WireWords& words, std::span<const std::byte> body) {
    return connections_[server]->start(WireMessage(static_cast<std::uint16_t>(kind), words, body), std::nullopt);
  }
  WireCall start(std::size_t server, JobRequest kind, const WireWords& words, const std::string& text) {
    return start(server, kind, words, std::as_bytes(std::span(text)));
  }
  void close(std::size_t server) { connections_[server]->close("as if it died"); }

 private:
  Wire wire_{WireOptions{}, nullptr};
  std::vector<std::shared_ptr<WireConnection>> connections_;
};

}  // namespace tiermap
