#!/usr/bin/env python3
"""Lists what the last run of ctest left untried, and why; for scripts/test.sh.

    check_skips.py RESULTS.xml SKIPS.txt EXPECTED.txt [--strict]

RESULTS.xml is ctest's --output-junit, SKIPS.txt what tests noted (support/skips.h), EXPECTED.txt what may be skipped.
With --strict the exit code is 1 if anything else was.
"""

import sys
import xml.etree.ElementTree as xml
from pathlib import Path


def skipped_entries(results):
    """(name, the last line that the entry printed) of each entry that ctest counts as skipped."""
    for case in xml.parse(results).getroot().iter("testcase"):
        if case.find("skipped") is not None and case.get("status") != "disabled":
            lines = (case.findtext("system-out") or "").strip().splitlines() or ["it does not say why"]
            yield case.get("name"), lines[-1]


def noted_parts(skips):
    for line in sorted(set(skips.read_text().splitlines())):
        name, _, why = line.partition(": ")
        yield name, why


def expected_names(expected):
    lines = (line.strip() for line in expected.read_text().splitlines())
    return {line.partition(":")[0] for line in lines if line and not line.startswith("#")}


def main():
    results, skips, expected = map(Path, sys.argv[1:4])
    allowed = expected_names(expected)
    found = [*skipped_entries(results), *noted_parts(skips)]
    unexpected = [name for name, _ in found if name not in allowed]
    print(f"skipped: {len(found)}")
    for name, why in found:
        print(f"  {name}: {why}{'' if name in allowed else ' (not expected)'}")
    if unexpected and "--strict" in sys.argv[4:]:
        sys.exit(f"test: skipped, and not in {expected}: {', '.join(unexpected)}")


if __name__ == "__main__":
    main()
