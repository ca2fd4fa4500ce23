#!/usr/bin/env bash
# If this failed, a room would include what the table of README.md does not allow.
exec "$(dirname "${BASH_SOURCE[0]}")/../../scripts/check_includes.sh"
