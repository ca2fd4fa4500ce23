#!/usr/bin/env bash
# Checks the includes of lib/ against the table of rooms in README.md; see check_includes.py.
#   scripts/check_includes.sh [--root DIR]
exec python3 "$(dirname "${BASH_SOURCE[0]}")/check_includes.py" "$@"
