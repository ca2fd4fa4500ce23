#!/usr/bin/env bash
# If this failed, a room could be linked with one that the table of README.md does not allow.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
project=$(mktemp -d); trap 'rm -rf "$project"' EXIT
cp README.md third_party/rooms.cmake "$project"

fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

# configure ROOM NEEDS...: the output of configuring a project of one room.
configure() {
  printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(edges NONE)' 'include(rooms.cmake)' \
      "tessera_check_needs($*)" >"$project/CMakeLists.txt"
  cmake -G Ninja -S "$project" -B "$project/build" 2>&1
}

configure plan config layout base >/dev/null || fail "plan -> config, layout, base must be allowed"
configure train executor data checkpoint >/dev/null || fail "train -> all above must be allowed"
output=$(configure layout config executor) && fail "layout -> executor must be refused"
[[ $output == *"Room edge layout -> executor is not allowed"* ]] || fail "the edge is not named: $output"
output=$(configure kitchen base) && fail "a room that is not in the table must be refused"
[[ $output == *"Room kitchen is not in the room table"* ]] || fail "the room is not named: $output"
