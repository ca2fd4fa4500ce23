#!/usr/bin/env bash
# If this failed, tests would be in the tree that no program has, entries would have gone without a word, or a test would
# compare within a tolerance that it does not state.
set -euo pipefail
build=$PWD/../..  # CTest starts an entry in its folder of the build
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

# Entries, without and with those on doubles of CUDA: fewer than there are today means that some were lost.
least=80 least_with_cuda=100
# What cannot be built without nvcc.
of_cuda='^test/(distributed/(nccl_double/|comm/gpu_)|gpu/order_test|unit/(comm/nccl_pieces_test|cuda_double/|device/gpu_))'

loose=$(grep -rnE '\bApprox\b' test --include='*.cpp' --include='*.h' | grep -vE '^test/support/(catch|about)\.h:' || true)
[ -z "$loose" ] || fail "Catch2's Approx allows 1.2e-5 beside every margin; use support/about.h: $loose"

# A unity source includes those that are compiled together.
compiled=$(python3 -c '
import json, os, re, sys
root = os.getcwd() + os.sep
for command in json.load(open(sys.argv[1])):
    file = os.path.realpath(command["file"])
    together = re.findall(r"#include \"(.*)\"", open(file).read()) if "/Unity/unity_" in file else [file]
    for source in together:
        print(os.path.realpath(source).removeprefix(root))' "$build/compile_commands.json")
has_cuda=false
grep -qx 'test/unit/cuda_double/faulty.cpp' <<<"$compiled" && has_cuda=true
while read -r source; do
  grep -qxF "$source" <<<"$compiled" && continue
  if ! $has_cuda && [[ $source =~ $of_cuda ]]; then echo "without nvcc: $source"; continue; fi
  fail "$source is in no test program: list it in a CMakeLists.txt"
done < <(find test -name '*_test.cpp' | sort)

entries=$(ctest --test-dir "$build" -N | sed -n 's/^Total Tests: //p')
! $has_cuda || least=$least_with_cuda
[ "$entries" -ge "$least" ] || fail "$entries entries, of which there were at least $least"
