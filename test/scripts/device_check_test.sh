#!/usr/bin/env bash
# If this failed, a device check would begin where it cannot end, or a device's minutes would go to a fault of the check.
# Programs and torch are acted by a few files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1

fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

# expect CODE TEXT ARGUMENT...: scripts/device_check.sh with these arguments exits with CODE and prints TEXT.
expect() {
  local code=$1 text=$2 output found=0; shift 2
  output=$(scripts/device_check.sh "$@" 2>&1) || found=$?
  [ $found -eq "$code" ] || fail "device_check.sh $* exits with $found instead of $code: $output"
  [[ $output == *"$text"* ]] || fail "'$text' is not in what device_check.sh $* prints: $output"
}

python3 test/scripts/device_check_page_test.py
python3 test/scripts/device_check_steps_test.py

expect 0 'scripts/device_check.sh --pack FOLDER' --help
expect 0 'demo_bfloat16   at most' --list
expect 2 "unknown argument '--fast'" --fast
expect 2 '--output needs a value' --output
expect 2 "--budget '8 min': give whole seconds" --budget '8 min'
expect 2 "--only 'demo': no such step" --only demo
expect 2 "--build $folder has no folder bin" --build "$folder"
expect 2 'there is something that is no bundle' --pack scripts

# A machine without a GPU, whatever this one has.
mkdir -p "$folder/path" "$folder/build/bin" "$folder/torch/lib"
printf '#!/bin/sh\necho "No devices were found"; exit 6\n' >"$folder/path/nvidia-smi"; chmod +x "$folder/path/nvidia-smi"
PATH=$folder/path:$PATH expect 2 'no GPU: nvidia-smi lists none: No devices were found' --output "$folder/none"
[ ! -e "$folder/none" ] || fail 'something was written although there is no GPU'

# A GPU, and no torch that fits.
printf '#!/bin/sh\n%s\n' '[ "$1" = -L ] && echo "GPU 0: NVIDIA H200 (UUID: GPU-0)" && exit' \
    'case $1 in --query*) echo "NVIDIA H200, 580.1, 143771, 0, 9.0, 700.00, 1980" ;; *) echo "CUDA Version: 13.0" ;; esac' \
    >"$folder/path/nvidia-smi"
export PATH=$folder/path:$PATH TESSERA_TORCH_DIR=$folder/torch
expect 2 "no torch in '$folder/torch'"
touch "$folder/torch/lib/libtorch_cpu.so"
printf "__version__ = '2.10.0'\ncuda: Optional[str] = '13.0'\n" >"$folder/torch/version.py"
expect 2 "is '2.10.0', and the programs are built for 2.11"
sed -i s/2.10.0/2.11.0+cu130/ "$folder/torch/version.py"

# With programs that are acted, some of which fail: every step is in the JSON, and the files are whole.
act() { printf '#!/bin/sh\n%s\n' "$2" >"$folder/build/bin/$1"; chmod +x "$folder/build/bin/$1"; }
act tessera-train 'echo "CUDA error: an illegal memory access" >&2; exit 4'
act bench_flops 'exit 0'
act bench_grouped 'printf "{\"device\": \"NVIDIA H200\", \"path\": \"grouped_mm\", \"groups\": 8, \"rows\": 8, \"inner\": 8, \"outer\": 8,"
printf "\"repeats\": 3, \"dense_s\": {\"forward\": 1, \"to_rows\": 1, \"to_weights\": 1}, \"cases\": []}"'
act test_gpu_kernels 'exit 0'
echo test_gpu_kernels >"$folder/build/bin/gpu_tests.txt"
act no_torch 'echo "ModuleNotFoundError: torch" >&2; exit 1'
TESSERA_PYTHON=$folder/build/bin/no_torch expect 1 'NOT all steps passed' --build "$folder/build" --output "$folder/out"
python3 - "$folder/out/device_check.json" <<'PYTHON' || fail "the JSON is not what it should be"
import json
import sys

report = json.load(open(sys.argv[1]))
status = {step["name"]: step["status"] for step in report["steps"]}
assert status == {"machine": "passed", "build": "passed", "gpu_tests": "passed", "demo_cpu": "failed", "demo_float32": "failed",
                  "demo_bfloat16": "failed", "grouped_ours": "passed", "grouped_torch": "failed", "stack": "failed"}, status
found = report["steps"][0]["results"]
assert found["gpu"] == "NVIDIA H200" and found["peak_tflops"] == 989.4 and found["torch"] == "2.11.0+cu130", found
assert found["memory_bytes"] == 143771 * 2**20 and found["driver_cuda"] == "13.0", found
assert "an illegal memory access" in report["steps"][3]["reason"], report
PYTHON
grep -q '^# Device check: NVIDIA H200$' "$folder/out/device_check.md" || fail 'the page does not name the device'
grep -q -e '-- code 4 after' "$folder/out/device_check.log" || fail 'the log does not have what was run'
expect 0 'all steps passed' --build "$folder/build" --output "$folder/some" --only machine gpu_tests

# A bundle: its programs look for libraries in torch's folder first, where this shell looks, and in the bundle's last.
bundle=$folder/bundle
mkdir -p "$bundle/scripts" "$bundle/bin" "$bundle/lib" "$bundle/corpus" "$folder/nvidia/nccl/lib" "$folder/cuda/lib64"
cp -r scripts/device_check.sh scripts/device_check scripts/demo "$bundle/scripts/"
echo 0123abc >"$bundle/commit"
cp "$folder"/build/bin/* "$bundle/bin/"
printf '#!/bin/sh\necho "looks in $LD_LIBRARY_PATH" >&2; exit 4\n' >"$bundle/bin/tessera-train"
chmod -x "$bundle/bin/tessera-train"
# looked_in CUDA_HOME: where the bundle's program looked on a machine with that folder of CUDA, which may not be there.
looked_in() {
  CUDA_HOME=$1 LD_LIBRARY_PATH=/drivers "$bundle/scripts/device_check.sh" --output "$folder/of_bundle" \
      --only build demo_cpu >/dev/null && fail 'a check whose programs fail exits with 0'
  sed -n 's/.*looks in //p' "$folder/of_bundle/device_check.log"
}
wheels=$folder/torch/lib:$folder/torch/../nvidia/nccl/lib
for toolkit in cuda no_cuda; do
  expected=$wheels:$folder/cuda/lib64:/drivers:$bundle/lib
  [ $toolkit = cuda ] || expected=$wheels:/drivers:$bundle/lib
  found=$(looked_in "$folder/$toolkit")
  [ "$found" = "$expected" ] || fail "a bundle's programs look in '$found', not in '$expected'"
done
grep -q 'commit 0123abc' "$folder/of_bundle/device_check.md" || fail "the page does not name the bundle's commit"
