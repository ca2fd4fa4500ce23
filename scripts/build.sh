#!/usr/bin/env bash
# Builds Tessera, after scripts/setup.sh; programs land in build/bin.
#   scripts/build.sh [--debug | --sanitize] [--cuda] [--target NAME]...
#     --debug      build without optimisation, into build-debug/
#     --sanitize   build with address and undefined-behaviour checks, into build-sanitize/
#     --cuda       build for NVIDIA GPUs, or fail and say what is missing. Without this option, the build supports GPUs
#                  if CUDA 13 and NCCL are installed
#     --target     build only this target
# CXX may name another compiler, TESSERA_TORCH_DIR another LibTorch. CI=true makes warnings errors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { printf 'build: %s\n' "$*" >&2; exit 2; }

folder=build type=RelWithDebInfo sanitize='' cuda=auto targets=() setup=()
while [ $# -gt 0 ]; do
  case $1 in
    --debug) folder=build-debug type=Debug ;;
    --sanitize) folder=build-sanitize sanitize=address,undefined ;;
    --cuda) cuda=on; setup=(--cuda) ;;
    --target) [ $# -ge 2 ] || fail "--target needs a name"; targets+=(--target "$2"); shift ;;
    -h|--help) sed -n '2,9s/^# //p' "$0"; exit 0 ;;
    *) fail "unknown argument '$1'; see scripts/build.sh --help" ;;
  esac
  shift
done

scripts/setup.sh "${setup[@]}"
werror=OFF; [ "${CI:-}" = true ] && werror=ON
# Configuring prints pages. If it succeeds, show only the lines about LibTorch and CUDA, and warnings.
log=$(mktemp); trap 'rm -f "$log"' EXIT
cmake -S . -B $folder -G Ninja -DCMAKE_BUILD_TYPE=$type -DTESSERA_SANITIZE="$sanitize" -DTESSERA_WERROR=$werror -DTESSERA_CUDA=$cuda \
    -DTESSERA_TORCH_DIR="${TESSERA_TORCH_DIR:-}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
grep -E '^-- (LibTorch|CUDA)|Warning' "$log" || true
cmake --build $folder "${targets[@]}"
