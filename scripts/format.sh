#!/usr/bin/env bash
# Formats every C and C++ source, or with --check fails and names those that are not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(find include src apps tools bench tests docs python -type f \
  \( -name '*.h' -o -name '*.hpp' -o -name '*.c' -o -name '*.cpp' \) | sort)
if [[ ${1:-} == --check ]]; then
  clang-format-19 --dry-run --Werror "${files[@]}"
  # Comments are left as they were written: they are to be as narrow as the code.
  if awk 'length > 120 { print FILENAME ":" FNR ": longer than 120 columns"; found = 1 } END { exit !found }' "${files[@]}"; then
    exit 1
  fi
  echo "format: ${#files[@]} files as clang-format-19 writes them"
else
  clang-format-19 -i "${files[@]}"
fi
