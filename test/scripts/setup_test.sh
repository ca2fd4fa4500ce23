#!/usr/bin/env bash
# If this failed, a user without root and sudo would get a stack of errors instead of the list of missing packages.
# The machine is acted by programs at the front of PATH; nothing is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
acted=$(mktemp -d); trap 'rm -rf "$acted"' EXIT

fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

act() { printf '#!/bin/sh\n%s\n' "$2" >"$acted/$1"; chmod +x "$acted/$1"; }

# expect_failure TEXT...: setup must exit with 2, print every TEXT, and nothing but its own lines.
expect_failure() {
  local output code=0 text
  output=$(PATH="$acted:$PATH" scripts/setup.sh ${option:-} 2>&1 </dev/null) || code=$?
  [ $code -eq 2 ] || fail "exit code $code instead of 2: $output"
  for text in "$@"; do [[ $output == *"$text"* ]] || fail "'$text' is not in: $output"; done
}

act dpkg-query 'printf "%s install ok installed\n" g++ cmake git; exit 1'
act id 'echo 1000'
act sudo 'echo "sudo: a password is required" >&2; exit 1'
act apt-get 'echo "E: Temporary failure resolving mirror.example.org"; exit 100'
expect_failure 'these Debian packages are missing: ninja-build ' 'Ask an administrator to run' \
    'apt-get update && apt-get install -y ninja-build '
[[ $(PATH="$acted:$PATH" scripts/setup.sh 2>&1 </dev/null) != *"a password is required"* ]] || fail "sudo's own words came through"

option=--slurm expect_failure 'python3-venv munge slurm-client slurmctld slurmd'

act id 'echo 0'
expect_failure 'E: Temporary failure resolving' "'apt-get update' failed (see above); is there a network? Missing: ninja-build "

TESSERA_TORCH_DIR=$acted expect_failure "TESSERA_TORCH_DIR=$acted has no lib/libtorch_cpu.so"
