#!/usr/bin/env bash
# Compares tessera-train with PyTorch at one rank and at several: speed, memory, time to the first step; then small benchmarks
# of parts.
#   scripts/bench.sh [--quick] [--ops] [--ranks "1 2 4"]
#     --quick   run each side twice instead of five times
#     --ops     run only the small benchmarks (products, permutation, loss, attention, data, checkpoints)
#     --ranks   numbers of ranks (default "1 2 4"); each number above 1 runs without expert parallelism and with the
#               experts split over all ranks
# The first call installs PyTorch with all its dependencies into .deps/peers (downloads 3 GB, takes 5 GB of disk). Writes
# results into output/bench/; test/bench/README.md has kept ones. TESSERA_PEERS_PYTHON may name a Python that already has
# the packages of scripts/peers/requirements.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { printf 'bench: %s\n' "$*" >&2; exit 2; }

command="scripts/bench.sh $*" repeats=5 compares=yes all_ranks="1 2 4"
while [ $# -gt 0 ]; do
  case $1 in
    --quick) repeats=2 ;;
    --ops) compares=no ;;
    --ranks)
      all_ranks=${2:-}
      [[ $all_ranks =~ ^\ *[1-9][0-9]*(\ +[1-9][0-9]*)*\ *$ ]] ||
        fail "--ranks '$all_ranks': give numbers of ranks with blanks between them, such as \"1 2 4\""
      shift ;;
    -h|--help) sed -n '2,/^set/s/^# //p' "$0"; exit 0 ;;
    *) fail "unknown argument '$1'; see scripts/bench.sh --help" ;;
  esac
  shift
done

install_peers() {
  local stamp=.deps/peers/installed
  if [ -e "$stamp" ] && cmp -s scripts/peers/requirements.txt "$stamp"; then return; fi
  echo "bench: installing PyTorch into .deps/peers"
  rm -rf .deps/peers
  python3 -m venv .deps/peers || fail "'python3 -m venv .deps/peers' failed (see above)"
  .deps/peers/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check \
      -r scripts/peers/requirements.txt || fail "'pip install -r scripts/peers/requirements.txt' failed; is there a network?"
  cp scripts/peers/requirements.txt "$stamp"
}

scripts/build.sh --target tessera-train --target bench
mkdir -p output/bench
if [ $compares = yes ]; then
  python=${TESSERA_PEERS_PYTHON:-}
  if [ -z "$python" ]; then install_peers; python=.deps/peers/bin/python; fi
  "$python" scripts/peers/make_bench_inputs.py output/bench/inputs
  for ranks in $all_ranks; do
    for ep in $(printf '1\n%s\n' "$ranks" | uniq); do
      "$python" scripts/peers/compare.py --inputs output/bench/inputs --output output/bench --bin build/bin \
          --python "$python" --ranks "$ranks" --ep "$ep" --repeats $repeats --command "$command"
    done
  done
fi
OMP_NUM_THREADS=1 build/bin/bench_ops | tee output/bench/ops.md
build/bin/bench_data output/bench | tee output/bench/data.md
OMP_NUM_THREADS=1 build/bin/bench_checkpoint output/bench/checkpoint | tee output/bench/checkpoint.md
