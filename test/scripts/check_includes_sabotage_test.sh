#!/usr/bin/env bash
# If this failed, scripts/check_includes.sh would let a wrong include pass. Each sabotage is made in a fresh copy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
copy=$(mktemp -d); trap 'rm -rf "$copy"' EXIT

fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

fresh_copy() { rm -rf "${copy:?}"/*; cp -r lib README.md "$copy"; }

# expect_offence TEXT...: the check of the copy must exit with 1 and print every TEXT.
expect_offence() {
  local output code=0 text
  output=$(scripts/check_includes.sh --root "$copy") || code=$?
  [ $code -eq 1 ] || fail "exit code $code instead of 1 for '$1':
$output"
  for text in "$@"; do [[ $output == *"$text"* ]] || fail "'$text' is not in:
$output"; done
}

fresh_copy
scripts/check_includes.sh --root "$copy" >/dev/null || fail "the copy as it is must pass"

fresh_copy; sed -i '1i #include <ATen/core/Tensor.h>' "$copy/lib/layout/layout.h"
expect_offence 'lib/layout/layout.h:1: layout may not include <ATen/core/Tensor.h> of torch (heavy: none)' 'offences: 1'

fresh_copy; sed -i '1i #include "train/training_run.h"' "$copy/lib/base/error.h"
expect_offence 'lib/base/error.h:1: base may not include "train/training_run.h" (direction: only base)'

fresh_copy; sed -i '2i # include  <mpi.h>' "$copy/lib/base/error.h"
expect_offence 'lib/base/error.h:2: base may not include <mpi.h> of MPI' 'offences: 1'

fresh_copy; mkdir -p "$copy/lib/data" "$copy/lib/comm/nccl" "$copy/lib/comm/mpi" "$copy/lib/unlisted"
printf '#include <ATen/core/Tensor.h>\n' | tee "$copy/lib/data/batch.h" >"$copy/lib/data/order.h"
printf '#include <nccl.h>\n#include <cuda_runtime.h>\n' | tee "$copy/lib/comm/nccl/a.h" >"$copy/lib/comm/mpi/a.h"
printf '#include "a.h"\n' >"$copy/lib/comm/nccl/b.cpp"
touch "$copy/lib/unlisted/x.h"
expect_offence 'lib/data/order.h:1: data may not include <ATen/core/Tensor.h> of torch (heavy: torch in batch)' \
    'lib/comm/mpi/a.h:1: comm may not include <nccl.h> of NCCL' \
    'lib/comm/mpi/a.h:2: comm may not include <cuda_runtime.h> of CUDA' \
    'lib/comm/nccl/b.cpp:1: "a.h" names no room' 'lib/unlisted is not in the table' 'offences: 5'

# Modules of a room stand above each other; the GPU's form belongs to its module.
fresh_copy; printf '#include "ops/b.h"\n' | tee "$copy/lib/ops/a.cpp" >"$copy/lib/ops/b_gpu.h"
printf '#include "ops/a.h"\n' >"$copy/lib/ops/b_gpu.cpp"; touch "$copy/lib/ops/a.h" "$copy/lib/ops/b.h"
expect_offence 'these include each other in a circle: ops/a, ops/b (cycles)' 'offences: 1'

# What a step is called is the model's own business.
fresh_copy; printf 'bool is_lookup(std::string_view kind) { return kind == architecture::embedding::lookup; }  // ValueKind::ids\n' \
  >"$copy/lib/program/sabotage.cpp"
cp "$copy/lib/program/sabotage.cpp" "$copy/lib/model/sabotage.cpp"
expect_offence 'lib/program/sabotage.cpp:1: program names architecture::embedding::lookup (names: only architecture' 'offences: 1'

# CUDA's headers, and LibTorch's for it, have their folders; NCCL's have one; also in files for nvcc.
fresh_copy; mkdir -p "$copy/lib/device/cuda" "$copy/lib/comm/nccl"
printf '#include <cuda_runtime_api.h>\n' | tee "$copy/lib/comm/nccl/a.cu" >"$copy/lib/device/cuda/a.cpp"
printf '#include <cuda_runtime_api.h>\n#include <nccl.h>\n' | tee "$copy/lib/device/a.cpp" >"$copy/lib/ops/a.cu"
printf '#include <nccl.h>\n' >"$copy/lib/device/cuda/a.h"
printf '#include <c10/cuda/CUDAStream.h>\n' | tee "$copy/lib/comm/nccl/a.h" >"$copy/lib/fsdp/a.h"
expect_offence 'lib/device/a.cpp:1: device may not include <cuda_runtime_api.h> of CUDA (heavy: torch; CUDA in cuda)' \
    'lib/device/a.cpp:2: device may not include <nccl.h> of NCCL' 'lib/device/cuda/a.h:1: device may not include <nccl.h> of NCCL' \
    'lib/ops/a.cu:1: ops may not include <cuda_runtime_api.h> of CUDA' 'lib/ops/a.cu:2: ops may not include <nccl.h> of NCCL' \
    'lib/comm/nccl/a.h:1: comm may not include <c10/cuda/CUDAStream.h> of torch' \
    'lib/fsdp/a.h:1: fsdp may not include <c10/cuda/CUDAStream.h> of CUDA' 'offences: 7'

fresh_copy; sed -i '/^| `config` |/s/ none |$/ torch in `sabotage` |/' "$copy/README.md"
printf '#include <ATen/core/Tensor.h>\n' >"$copy/lib/config/sabotage.h"
printf '#pragma once\n\n#include "config/sabotage.h"\n' >"$copy/lib/layout/sabotage.h"
expect_offence 'lib/layout/sabotage.h:3: layout gets <ATen/core/Tensor.h> through config/sabotage.h (reach: ' 'offences: 1'
printf '#include "layout/sabotage.h"\n' >"$copy/lib/program/sabotage.h"
expect_offence 'lib/program/sabotage.h:1: program gets <ATen/core/Tensor.h> through layout/sabotage.h -> config/sabotage.h'

fresh_copy; sed -i 's/^| `config` | - |/| `config` | train |/' "$copy/README.md"
code=0; output=$(scripts/check_includes.sh --root "$copy" 2>&1) || code=$?
[ $code -eq 2 ] && [[ $output == *"config may include train, which does not stand above it"* ]] || fail "code $code: $output"
