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

# With CUDA, in a tree whose LibTorch is there already: nvcc and the linker are acted, and pip says what it is asked for.
tree=$acted/tree; python=$tree/.deps/python
mkdir -p "$tree/scripts" "$tree/third_party" "$python/bin" "$acted/toolkit/bin" "$acted/toolkit/lib64"
cp scripts/setup.sh scripts/requirements.txt "$tree/scripts"
cp third_party/libtorch*.txt "$tree/third_party"
cat scripts/requirements.txt third_party/libtorch.txt >"$python/installed"
act dpkg-query 'shift 3; printf "%s install ok installed\n" "$@"'
act ldconfig 'echo "	libcudnn.so.9 (libc6,x86-64) => /usr/lib/libcudnn.so.9"'
act tree/.deps/python/bin/python 'echo "$@" >>'"$acted/asked"
act toolkit/bin/nvcc 'echo "Cuda compilation tools, release 13.0, V13.0.88"'
touch "$acted/toolkit/lib64/libnccl.so.2"

# set_up NVCC OPTIONS...: what pip was asked for.
set_up() {
  local nvcc=$1; shift
  rm -f "$acted/asked"
  PATH="$acted:$PATH" TESSERA_TORCH_DIR='' CUDACXX=$nvcc "$tree/scripts/setup.sh" "$@" >"$acted/said" 2>&1 || fail "set-up: $(cat "$acted/said")"
  [ ! -e "$acted/asked" ] || cat "$acted/asked"
}
three='nvidia-cufile==1.15.1.6 nvidia-cusparselt-cu13==0.8.0 nvidia-nvshmem-cu13==3.4.5'
asked=$(set_up "$acted/no-nvcc"); [ -z "$asked" ] || fail "without nvcc set-up asked for $asked"
asked=$(set_up "$acted/toolkit/bin/nvcc"); [[ $asked == *" $three" ]] || fail "with CUDA 13 set-up asked for $asked"
asked=$(set_up "$acted/toolkit/bin/nvcc" --cuda); [ -z "$asked" ] || fail "set-up asked again for $asked"
rm "$python/installed_cuda"
asked=$(set_up "$acted/no-nvcc" --cuda); [[ $asked == *" $three nvidia-nccl-cu13=="* ]] || fail "without nvcc, --cuda asked for $asked"
act toolkit/bin/nvcc 'echo "Cuda compilation tools, release 12.8, V12.8.93"'
rm "$python/installed_cuda"
asked=$(set_up "$acted/toolkit/bin/nvcc"); [ -z "$asked" ] || fail "with CUDA 12 set-up asked for $asked"
