#!/usr/bin/env bash
# Sets up, builds and runs the tests.
#   scripts/test.sh [--sanitize] [--cuda] [--slow] [--strict] [ctest options]
#     --sanitize   build with address and undefined-behaviour checks
#     --cuda       build for NVIDIA GPUs, or fail and say what is missing (see scripts/build.sh)
#     --slow       also run the tests labelled slow
#     --strict     fail if a test is skipped that test/expected_skips.txt does not name; CI=true does the same
# Examples: scripts/test.sh -R layout     scripts/test.sh -L ranks1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=build options=() slow=(-LE '^slow$') select=() strict=()
[ "${CI:-}" != true ] || strict=(--strict)
for argument in "$@"; do
  case $argument in
    --sanitize) folder=build-sanitize; options+=(--sanitize) ;;
    --cuda) options+=(--cuda) ;;
    --slow) slow=() ;;
    --strict) strict=(--strict) ;;
    -h|--help) sed -n '2,8s/^# //p' "$0"; exit 0 ;;
    *) select+=("$argument") ;;
  esac
done

scripts/build.sh "${options[@]}"
export TESSERA_SKIPS=$PWD/$folder/skips.txt
results=$PWD/$folder/results.xml
rm -f "$results"; : >"$TESSERA_SKIPS"
grep -q cuda_double $folder/compile_commands.json ||
  echo 'tests on doubles of CUDA and NCCL: this build has no CUDA' >>"$TESSERA_SKIPS"
code=0
# Twice as many at a time as there are processors: ranks wait for each other, and often for a limit to pass.
ctest --test-dir $folder --output-on-failure --no-tests=error -j $(( 2 * $(nproc) )) --output-junit "$results" \
    "${slow[@]}" "${select[@]}" || code=$?
[ ! -e "$results" ] || python3 test/support/check_skips.py "$results" "$TESSERA_SKIPS" test/expected_skips.txt \
    "${strict[@]}" || code=1
exit $code
