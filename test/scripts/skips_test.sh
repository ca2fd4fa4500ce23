#!/usr/bin/env bash
# If this failed, a test that was not tried would count as passed in continuous integration.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT

fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

cat >"$folder/results.xml" <<'XML'
<testsuite tests="3" failures="0" disabled="0" skipped="2">
  <testcase name="test_a" status="run"><system-out>all passed</system-out></testcase>
  <testcase name="test_b" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>starts
skipped: no GPU</system-out></testcase>
  <testcase name="test_c" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out></system-out></testcase>
</testsuite>
XML
printf '%s\n' 'mounting a disk: mount: denied' 'mounting a disk: mount: denied' >"$folder/skips.txt"
check() { printf '# comment\n%s\n' "$1" >"$folder/expected.txt"; shift
          test/support/check_skips.py "$folder/results.xml" "$folder/skips.txt" "$folder/expected.txt" "$@" 2>&1; }

told=$(check 'test_b: no machine has one') || fail "without --strict nothing is refused: $told"
[[ $told == *"skipped: 3"*"test_b: skipped: no GPU"*"test_c: it does not say why (not expected)"*"mounting a disk: mount: denied (not"* ]] ||
  fail "it does not tell what was skipped: $told"
told=$(check 'test_b: no machine has one' --strict) && fail "an unexpected skip passes: $told"
[[ $told == *"expected.txt: test_c, mounting a disk"* ]] || fail "it does not name what is not expected: $told"
check $'test_b: x\ntest_c: x\nmounting a disk: x' --strict >/dev/null || fail "what is expected is refused"

grep -qE '^skipped: [0-9]+$' <<<"$told" || fail "no number: $told"
grep -q -- '--strict' .ci/run || fail ".ci/run lets any skip pass"
