// Two network namespaces as nodes, 10.77.0.1 and 10.77.0.2, with a cable between them.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cluster/server_process.hpp"

namespace tiermap {

inline int run_command(const std::string& command) {
  return std::system(command.c_str());  // NOLINT(cert-env33-c,concurrency-mt-unsafe): a test's own script.
}

/// The namespaces, for as long as it lives.
class TwoNodes {
 public:
  TwoNodes() : name("tiermap-test-" + std::to_string(::getpid())) {
    ::setenv("TIERMAP_USER", "ann", 1);
    ::setenv("TIERMAP_SECRET", "correct horse", 1);
    made = run_command("TWO_NODES_NAME=" + name + " " + script + " up >/dev/null 2>&1") == 0;
  }
  ~TwoNodes() {
    for (const char* const name_of_variable : {"TIERMAP_USER", "TIERMAP_SECRET"}) {
      ::unsetenv(name_of_variable);
    }
    run_command("TWO_NODES_NAME=" + name + " " + script + " down >/dev/null 2>&1");
  }
  std::vector<std::string> in(int node, const std::vector<std::string>& command) const {
    std::vector<std::string> all = {"/usr/bin/env", "ip", "netns", "exec", name + "-" + std::to_string(node)};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  std::uint64_t received(int node) const {
    ChildProcess child(in(node, {"cat", "/sys/class/net/veth0/statistics/rx_bytes"}));
    const std::string text = child.output();
    child.wait();
    return std::stoull(text);
  }

  const std::string script = std::string(TIERMAP_SOURCE_FOLDER) + "/scripts/two_nodes.sh";
  const std::string name;
  bool made = false;
};

}  // namespace tiermap
