#!/usr/bin/env bash
# Formats the C++ sources of the tree with clang-format 14; refuses other versions, which format differently.
#   scripts/format.sh [--check]
#     --check      change nothing; print the files that are not formatted, exit code 1 if there are any
# Exit code 77: clang-format 14 is not installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check=no
case ${1:-} in
  '') ;;
  --check) check=yes ;;
  -h|--help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
  *) echo "format: unknown argument '$1'; it takes --check" >&2; exit 2 ;;
esac

for program in clang-format-14 clang-format ''; do
  [ -n "$program" ] || { echo "format: no clang-format 14 here; install the Debian package clang-format-14" >&2; exit 77; }
  command -v "$program" >/dev/null && "$program" --version | grep -q 'version 14\.' && break
done

mapfile -t files < <(find lib apps test -name '*.h' -o -name '*.cpp' | sort)
if [ $check = no ]; then
  "$program" --style=file -i "${files[@]}"
  exit
fi
wrong=$("$program" --style=file --dry-run "${files[@]}" 2>&1 | sed -n 's/:[0-9]*:[0-9]*: .*-Wclang-format-violations.*//p' | uniq)
[ -z "$wrong" ] || { printf 'not formatted; run scripts/format.sh:\n%s\n' "$wrong"; exit 1; }
