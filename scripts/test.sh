#!/usr/bin/env bash
# Sets up, builds and runs the tests.
#   scripts/test.sh [--sanitize] [--cuda] [--slow] [ctest options]
#     --sanitize   with address and undefined-behaviour checks
#     --cuda       with NVIDIA GPUs, or an error that says what is missing (see scripts/build.sh)
#     --slow       the tests labelled slow too
# Examples: scripts/test.sh -R layout     scripts/test.sh -L ranks1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=build options=() slow=(-LE '^slow$') select=()
for argument in "$@"; do
  case $argument in
    --sanitize) folder=build-sanitize; options+=(--sanitize) ;;
    --cuda) options+=(--cuda) ;;
    --slow) slow=() ;;
    -h|--help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
    *) select+=("$argument") ;;
  esac
done

scripts/build.sh "${options[@]}"
exec ctest --test-dir $folder --output-on-failure --no-tests=error -j "$(nproc)" "${slow[@]}" "${select[@]}"
