#!/usr/bin/env bash
# Two nodes on one machine: network namespaces tiermap-1 (10.77.0.1, fd77::1) and tiermap-2 (10.77.0.2, fd77::2),
# joined by a virtual cable.
# scripts/two_nodes.sh up; then `ip netns exec tiermap-1 COMMAND...`; then scripts/two_nodes.sh down. Needs root.
# scripts/two_nodes.sh run COMMAND...: up, a memory server on each node, COMMAND as one rank on each by MPICH's mpiexec, down.
# TWO_NODES_MEMORY is what each server gives, 256MiB if not said.
set -euo pipefail
name=${TWO_NODES_NAME:-tiermap}
first=$name-1
second=$name-2

# Before anything is made: what fails later takes down only what it made.
refuse_if_up() {
  local node
  for node in "$first" "$second"; do
    [[ ! -e /run/netns/$node ]] || { echo "two_nodes.sh: node $node is up already: take it down with 'two_nodes.sh down', or set TWO_NODES_NAME" >&2; return 2; }
  done
}

up() {
  ip netns add "$first"
  ip netns add "$second"
  ip -n "$first" link add veth0 type veth peer name veth0 netns "$second"
  ip -n "$first" address add 10.77.0.1/24 dev veth0
  ip -n "$first" address add fd77::1/64 dev veth0 nodad 2>/dev/null || true  # Where there is no IPv6, without it.
  ip -n "$second" address add 10.77.0.2/24 dev veth0
  ip -n "$second" address add fd77::2/64 dev veth0 nodad 2>/dev/null || true  # Where there is no IPv6, without it.
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
}

down() {
  ip netns delete "$first" || true
  ip netns delete "$second" || true
}

# serve NODE ADDRESS FOLDER: returns when the server listens.
serve() {
  local file=$3/$2
  printf 'listen: %s:7070\nmemory: %s\nusers: [{name: two-nodes, secret: %s}]\n' \
    "$2" "${TWO_NODES_MEMORY:-256MiB}" "$TIERMAP_SECRET" >"$file.yaml"
  ip netns exec "$1" tiermap serve --config "$file.yaml" >"$file.txt" 2>&1 &
  servers+=($!)
  until grep -qs listening "$file.txt"; do  # It is not there at once.
    kill -0 "${servers[-1]}" 2>/dev/null || { cat "$file.txt" >&2; return 1; }
    sleep 0.05
  done
}

clean() {
  local process
  for process in $ranks "${servers[@]}"; do
    kill "$process" 2>/dev/null || true
  done
  wait || true
  down
  rm -rf "$folder"
}

run() {
  local program
  for program in tiermap mpiexec.mpich; do
    command -v "$program" >/dev/null || { echo "two_nodes.sh: no $program: install it, or put its folder into PATH" >&2; return 2; }
  done
  refuse_if_up || return
  servers=()
  ranks=
  folder=$(mktemp -d)
  chmod 700 "$folder"
  trap clean EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  up
  # UCX would find that both are one machine, and go through its memory.
  export UCX_TLS=tcp,self TIERMAP_USER=two-nodes TIERMAP_SERVERS=10.77.0.1:7070,10.77.0.2:7070
  TIERMAP_SECRET=$(head -c 16 /dev/urandom | base64)
  export TIERMAP_SECRET
  serve "$first" 10.77.0.1 "$folder"
  serve "$second" 10.77.0.2 "$folder"
  # In the background: a signal is then answered at once, by ending all.
  mpiexec.mpich -n 1 ip netns exec "$first" "$@" : -n 1 ip netns exec "$second" "$@" &
  ranks=$!
  wait "$ranks"
}

case ${1:-} in
  up)
    refuse_if_up
    up
    ;;
  down) down ;;
  run)
    shift
    (($# > 0)) || { echo "two_nodes.sh: run needs a command: name a program" >&2; exit 2; }
    run "$@"
    ;;
  *)
    echo "two_nodes.sh: '${1:-}' is none of these: choose up, down or run" >&2
    exit 2
    ;;
esac
