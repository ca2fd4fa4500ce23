#!/usr/bin/env bash
# Installs, builds, and trains a small mixture of experts on the headers of the C++ standard library (bytes as tokens).
#
#   scripts/demo.sh [--ranks N] [--path.to.setting value ...]
#     --ranks   number of ranks, 1 (default), 2, 4 or 8; mpirun starts several, which split experts and embedding
#     others    further settings for tessera-train
#
# Kills a rank of the run after its first checkpoint, and resumes with another number of ranks: two after one, otherwise half
# as many. Holds out every tenth file. At the end it compares the held-out cross entropy with that of a bigram model of the
# same bytes (exit code 1 if the trained model is not better), and converts the weights for HuggingFace. Writes results into
# output/demo, or the folder that TESSERA_DEMO_OUTPUT names.
set -euo pipefail
cd "$(dirname "$0")/.."

ranks=1
case ${1:-} in
  -h|--help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --ranks)
    case ${2:-} in 1|2|4|8) ranks=$2 ;; *) echo "demo.sh: --ranks is 1, 2, 4 or 8" >&2; exit 2 ;; esac
    shift 2 ;;
esac
scripts/build.sh --target tessera-train --target tessera-convert

text=(/usr/include/c++/*)
text=${text[-1]}
[ -d "$text" ] || { echo "demo.sh: no C++ headers under /usr/include/c++; install g++" >&2; exit 2; }
# Takes only plain names, because commas and spaces would separate the paths of a list.
mapfile -t files < <(find "$text" -type f -regex '[-A-Za-z0-9_./+]*' -size +1k | LC_ALL=C sort)
train=() held_out=()
for k in "${!files[@]}"; do
  if (( k % 10 == 7 )); then held_out+=("${files[k]}"); else train+=("${files[k]}"); fi
done
# Evaluates only twelve of them: all would take longer than the training.
held_out=("${held_out[@]:0:12}")

output=${TESSERA_DEMO_OUTPUT:-output/demo}
rm -rf "$output"/step_* "$output/latest" "$output/hf"
rm -f "$output"/{metrics,settings.resolved}.*json*  # otherwise the new run would keep the former ones, moved aside
settings=(--train.checkpoint.output_dir "$output" --data.train_path "${train[@]}" --data.eval_path "${held_out[@]}" "$@")

# Sets `command` to the run on $1 ranks. A micro-step has as many sequences as on one rank, so that it is the same run.
train_on() {
  command=(build/bin/tessera-train scripts/demo/config.json)
  [ "$1" -eq 1 ] || {
    local start=(mpirun -n "$1" --bind-to none --oversubscribe)
    [ "$(id -u)" -ne 0 ] || start+=(--allow-run-as-root)
    command=("${start[@]}" "${command[@]}" --train.micro_batch_size $((8 / $1))
             --train.accelerator.extra_parallel_names ep emb --train.accelerator.extra_parallel_sizes "$1" "$1")
  }
  command+=("${settings[@]}")
}

# Waits for the first checkpoint of process $1 and kills one of its ranks (a child of mpirun, or the process itself). Fails if
# the run ends before.
kill_after_a_checkpoint() {
  local rank children=/proc/$1/task/$1/children
  until [ -e "$output/latest" ]; do
    kill -0 "$1" 2>/dev/null || return 1
    sleep 0.2
  done
  rank=$(grep -o '[0-9]*' "$children" 2>/dev/null | tail -n 1) || true
  kill -9 "${rank:-$1}" 2>/dev/null
}

started=$(date +%s)
train_on "$ranks"
"${command[@]}" &
run=$!
trap 'kill "$run" 2>/dev/null' EXIT
if kill_after_a_checkpoint "$run"; then
  wait "$run" 2>/dev/null || true
  other=$((ranks == 1 ? 2 : ranks / 2))
  echo "demo: a rank was killed after $(cd "$output" && echo step_*[0-9]) was saved; going on with --ranks $other instead of $ranks"
  train_on "$other"
  "${command[@]}" --train.checkpoint.load_path auto
else
  wait "$run"
fi
trap - EXIT
echo "demo: trained in $(($(date +%s) - started)) s"

python=.deps/python/bin/python
bigram=$("$python" scripts/bigram.py --train "${train[@]}" --eval "${held_out[@]}")
"$python" scripts/plot_run.py "$output" --output "$output/run.png"
"$python" - "$output/metrics.jsonl" "$bigram" <<'PYTHON'
import json
import sys

evaluations = [line for line in map(json.loads, open(sys.argv[1])) if line["kind"] == "evaluation"]
trained, bigram = evaluations[-1]["eval/ce_loss"], float(sys.argv[2])
print(f"demo: held-out cross entropy {trained:.4f} nats a byte; a bigram model of the same text has {bigram:.4f}")
if not trained < bigram:
    sys.exit("demo: the trained model should be better than the bigram model")
PYTHON
build/bin/tessera-convert "$output" "$output/hf" --dtype bfloat16
echo "demo: results in $output: metrics.jsonl, settings.resolved.json, run.png, the newest checkpoints step_*, and the"
echo "demo: weights for HuggingFace in hf: transformers' AutoModelForCausalLM.from_pretrained(\"$output/hf\") loads them"
