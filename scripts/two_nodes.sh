#!/usr/bin/env bash
# Two nodes on one machine: network namespaces tiermap-1 (10.77.0.1) and tiermap-2 (10.77.0.2), joined by a virtual cable.
# scripts/two_nodes.sh up; then `ip netns exec tiermap-1 COMMAND...`; then scripts/two_nodes.sh down. Needs root.
set -euo pipefail
first=${TWO_NODES_NAME:-tiermap}-1
second=${TWO_NODES_NAME:-tiermap}-2
case ${1:-} in
  up)
    ip netns add "$first"
    ip netns add "$second"
    ip -n "$first" link add veth0 type veth peer name veth0 netns "$second"
    ip -n "$first" address add 10.77.0.1/24 dev veth0
    ip -n "$second" address add 10.77.0.2/24 dev veth0
    for node in "$first" "$second"; do
      ip -n "$node" link set lo up
      ip -n "$node" link set veth0 up
    done
    # UCX takes no device that is not up yet.
    for node in "$first" "$second"; do
      until [[ $(ip netns exec "$node" cat /sys/class/net/veth0/operstate) == up ]]; do
        sleep 0.05
      done
    done
    ;;
  down)
    ip netns delete "$first" || true
    ip netns delete "$second" || true
    ;;
  *)
    echo "two_nodes.sh: '${1:-}' is neither: choose up or down" >&2
    exit 2
    ;;
esac
