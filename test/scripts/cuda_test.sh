#!/usr/bin/env bash
# If this failed, a build for GPUs that cannot be would end in pages of errors, or a build without GPUs would not begin.
# LibTorch and CUDA are acted by a few files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
project=$(mktemp -d); trap 'rm -rf "$project"' EXIT
torch=$project/packages/torch toolkit=$project/toolkit nvcc=$project/toolkit/bin/nvcc
mkdir -p "$torch/lib" "$toolkit/bin" "$toolkit/include" "$toolkit/lib64"
printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(gpus NONE)' "set(torch_dir $torch)" \
    'set(CMAKE_CXX_COMPILER c++)' "include($PWD/third_party/cuda.cmake)" 'message(STATUS "with CUDA: ${TESSERA_WITH_CUDA}")' \
    >"$project/CMakeLists.txt"

fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

# expect ASKED CODE TEXT: configuring with TESSERA_CUDA ASKED exits with CODE and prints TEXT (line breaks are spaces).
expect() {
  local output code=0
  output=$(CUDACXX=$nvcc cmake -G Ninja -DTESSERA_CUDA="$1" -S "$project" -B "$project/build" 2>&1) || code=$?
  output=$(tr -s ' \n' '  ' <<<"$output")
  rm -rf "$project/build"
  [ "$code" -eq "$2" ] || fail "TESSERA_CUDA=$1 exits with $code instead of $2: $output"
  [[ $output == *"$3"* ]] || fail "'$3' is not in: $output"
}

expect off 0 'CUDA: left out, since TESSERA_CUDA is off -- with CUDA: OFF'
expect maybe 1 'TESSERA_CUDA = maybe is none of auto, on, off'
expect auto 0 'CUDA: left out, since there is no nvcc; install CUDA 13.0'
expect on 1 'TESSERA_CUDA is on, but there is no nvcc'

printf '#!/bin/sh\necho "nvcc fatal : Value c++20 is not defined for option std" >&2; exit 1\n' >"$nvcc"; chmod +x "$nvcc"
expect on 1 "the LibTorch in $torch is a CPU build; let TESSERA_TORCH_DIR name a CUDA build"
touch "$torch/lib/libtorch_cuda.so"
expect on 1 "libcudart is not beside $nvcc; install the whole CUDA 13.0"
touch "$toolkit/include/cuda_runtime_api.h" "$toolkit/lib64/libcudart.so" "$toolkit/include/nccl.h" "$toolkit/lib64/libnccl.so"
expect auto 0 'does not make a program (nvcc fatal : Value c++20 is not defined for option std)'

# This one makes a program that does not start.
printf '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n%s\n' \
    'printf "#!/bin/sh\necho libcufile.so.0: cannot open; exit 1" >"$2"; chmod +x "$2"' >"$nvcc"
expect auto 0 "LibTorch's CUDA part does not start (libcufile.so.0: cannot open); run scripts/setup.sh --cuda"
expect on 1 "TESSERA_CUDA is on, but LibTorch's CUDA part does not start"
