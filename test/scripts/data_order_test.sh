#!/usr/bin/env bash
# If this failed, the comparison with PyTorch would train on other windows than tessera-train.
# The same values stand in test/unit/base/random_test.cpp.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts/peers"
PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
from data_order import Permutation, window_order

assert [Permutation(585, 42, 3)(i) for i in range(8)] == [351, 196, 70, 67, 359, 161, 429, 444]
assert [Permutation(7, 5, (1 << 40) + 1)(i) for i in range(7)] == [5, 3, 1, 4, 0, 6, 2]
assert [Permutation(1000000, 9, 1)(i) for i in range(4)] == [263763, 183821, 36201, 668097]
assert sorted(window_order(585, 0)) == list(range(585))
assert window_order(585, 0) != window_order(585, 0, epoch=1)
PYTHON
