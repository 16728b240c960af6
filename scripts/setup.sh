#!/usr/bin/env bash
# Installs the Debian packages that the named groups need and that are missing. Touches the network only then.
set -euo pipefail

packages_of() {
  case $1 in
    build) echo g++ cmake ninja-build pkg-config liburing-dev libxxhash-dev libyaml-cpp-dev libcli11-dev libfmt-dev \
                nlohmann-json3-dev libgtest-dev librocksdb-dev liblmdb-dev libcfitsio-dev \
                libboost-dev libhdf5-dev libcurl4-openssl-dev libucx-dev libssl-dev libmpich-dev ;;
    test) echo clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev python3 python3-dev python3-venv dpkg-dev file \
               lrzip sqlite3 lmdb-utils ripgrep bsdextrautils git python3-numpy python3-h5py iproute2 mpich ;;
    demo) echo python3-matplotlib ;;
    bench) echo fio ucx-utils mpich iproute2 ;;
    spark) echo openjdk-17-jre-headless python3-venv ;;
    package) echo dpkg-dev file ;;
    *) echo "setup.sh: unknown group $1: choose build, test, demo, bench, spark or package" >&2; return 2 ;;
  esac
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "setup.sh: not root and no sudo: install by hand: ${missing[*]}" >&2
    exit 1
  fi
}

apt() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

# The lists are also what the demo reads (the Debian package graph), so their absence counts as something missing.
have_lists() {
  compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null
}

missing=()
wants_lists=false
for group in "$@"; do
  names=$(packages_of "$group")
  [[ $group == demo ]] && wants_lists=true
  for name in $names; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
    [[ $status == installed ]] || missing+=("$name")
  done
done

if [[ ${#missing[@]} -eq 0 ]]; then
  if $wants_lists && ! have_lists; then
    echo "Fetching the package lists, which the demo reads"
    apt update || echo "setup.sh: no package lists: the demo uses the installed packages instead" >&2
  fi
  exit 0
fi

echo "Installing: ${missing[*]}"
if ! have_lists; then
  apt update
fi
# Old lists can name versions that the mirror has dropped: then fetch the lists and try once more.
if ! apt install --no-install-recommends "${missing[@]}"; then
  apt update
  apt install --no-install-recommends "${missing[@]}"
fi
