#!/usr/bin/env bash
# Builds Tessera, after scripts/setup.sh; programs land in build/bin.
#   scripts/build.sh [--debug | --sanitize] [--cuda] [--target NAME]...
#     --debug      without optimisation, into build-debug/
#     --sanitize   with address and undefined-behaviour checks, into build-sanitize/
#     --cuda       for NVIDIA GPUs, or an error that says what is missing; without it they are left out where CUDA 13 and
#                  NCCL are not there
#     --target     build only this target
# CXX names another compiler, TESSERA_TORCH_DIR another LibTorch; CI=true makes warnings errors.
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
# Configuring prints pages; of a good run only what names LibTorch and CUDA and warnings are of interest.
log=$(mktemp); trap 'rm -f "$log"' EXIT
cmake -S . -B $folder -G Ninja -DCMAKE_BUILD_TYPE=$type -DTESSERA_SANITIZE="$sanitize" -DTESSERA_WERROR=$werror -DTESSERA_CUDA=$cuda \
    -DTESSERA_TORCH_DIR="${TESSERA_TORCH_DIR:-}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
grep -E '^-- (LibTorch|CUDA)|Warning' "$log" || true
cmake --build $folder "${targets[@]}"
