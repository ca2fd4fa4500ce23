#!/usr/bin/env bash
# If this failed, sources would not be formatted. Skipped (exit code 77) without clang-format 14.
exec "$(dirname "${BASH_SOURCE[0]}")/../../scripts/format.sh" --check
