#!/usr/bin/env bash
# If this failed, a LibTorch that is missing or too old would show itself as pages of compiler errors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
project=$(mktemp -d); trap 'rm -rf "$project"' EXIT
printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(torch NONE)' \
    "include($PWD/third_party/libtorch.cmake)" >"$project/CMakeLists.txt"

fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

# make_torch VERSION: the few files by which a LibTorch is known.
make_torch() {
  mkdir -p "$project/torch/include/torch/headeronly" "$project/torch/lib"
  printf '#define TORCH_VERSION \\\n  "%s"\n' "$1" >"$project/torch/include/torch/headeronly/version.h"
}

# expect TEXT: configuring must print TEXT (CMake breaks lines of errors, so spaces and breaks are the same).
expect() {
  local output
  output=$(TESSERA_TORCH_DIR=${torch_dir-$project/torch} cmake -G Ninja -S "$project" -B "$project/build" 2>&1 | tr -s ' \n' '  ') || true
  rm -rf "$project/build"
  [[ $output == *"$1"* ]] || fail "'$1' is not in: $output"
}

expect "No LibTorch >= 2.11 in '$project/torch': run scripts/setup.sh"
torch_dir='' expect 'No LibTorch >= 2.11'
make_torch 2.10.1
expect 'LibTorch 2.10.1 in'
expect 'is too old: Tessera needs 2.11 or later'
make_torch 2.12.0
expect "LibTorch 2.12.0 (CPU build) from $project/torch"
touch "$project/torch/lib/libtorch_cuda.so"
expect "LibTorch 2.12.0 (CUDA build) from $project/torch"
