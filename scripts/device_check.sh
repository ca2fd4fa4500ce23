#!/usr/bin/env bash
# Tests and measures Tessera on a machine with an NVIDIA GPU in less than 8 minutes: tests labelled gpu, the demo compared
# with the CPU, layers of Qwen3-30B-A3B's shape, grouped products. Needs a Python with torch 2.11 and its nvidia packages.
#   scripts/device_check.sh [--build FOLDER] [--output FOLDER] [--budget SECONDS] [--only STEP...]
#     --build      use the programs of this build folder (target device_check) instead of building
#     --output     folder for device_check.json, device_check.md and device_check.log (default output/device_check)
#     --budget     seconds for all steps together (default 450); the page names steps for which no time was left
#     --only       run only these steps; must come last
#   scripts/device_check.sh --list
#     prints the steps with their time limits
#   scripts/device_check.sh --pack FOLDER [--build FOLDER]
#     makes a bundle for a machine without compiler, MPI or network: programs, their libraries (without torch's and CUDA's),
#     settings, text to train on; at most 64 MiB. Run FOLDER/scripts/device_check.sh there. Packing needs no GPU
#   scripts/device_check.sh --rehearse [...]
#     runs all steps on the CPU with tiny sizes, to test the check itself; its page says so
# TESSERA_PYTHON names the Python (default python3), TESSERA_TORCH_DIR its folder torch if Python does not find it.
# Exit code 0: all steps passed; 1: a step did not pass, and the page says which and why; 2: the check cannot begin.
set -euo pipefail
command="scripts/device_check.sh $*"
start=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

most_bytes=$((64 << 20))

fail() { printf 'device_check: %s\n' "$*" >&2; exit 2; }
absolute() { case $1 in /*) printf '%s' "$1" ;; *) printf '%s/%s' "$start" "$1" ;; esac; }

build='' output='' budget=450 pack='' rehearse='' only=()
while [ $# -gt 0 ]; do
  case $1 in
    --build|--output|--budget|--pack)
      [ -n "${2:-}" ] || fail "$1 needs a value; see scripts/device_check.sh --help"
      case $1 in
        --build) build=$(absolute "$2") ;;
        --output) output=$(absolute "$2") ;;
        --pack) pack=$(absolute "$2") ;;
        --budget) [[ $2 =~ ^[1-9][0-9]{0,4}$ ]] || fail "--budget '$2': give whole seconds"; budget=$2 ;;
      esac
      shift ;;
    --only) shift; [ $# -gt 0 ] || fail "--only needs steps; --list names them"; only=("$@"); break ;;
    --list) exec python3 scripts/device_check/check.py --list ;;
    --rehearse) rehearse=--rehearse ;;
    -h|--help) sed -n '2,/^set/s/^# \{0,1\}//p' scripts/device_check.sh; exit 0 ;;
    *) fail "unknown argument '$1'; see scripts/device_check.sh --help" ;;
  esac
  shift
done
if [ ${#only[@]} -gt 0 ]; then
  steps=$(python3 scripts/device_check/check.py --list | cut -d ' ' -f 1)
  for step in "${only[@]}"; do
    grep -qxF -e "$step" <<<"$steps" || fail "--only '$step': no such step; --list names them"
  done
fi
[ -z "$build" ] || [ -d "$build/bin" ] || fail "--build $build has no folder bin"

# Prints the libraries of a program that a bare machine may lack, except those of glibc, the compiler, torch and CUDA.
libraries_of() {
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' |
    grep -Ev '^(lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s|gomp|torch[_a-z]*|c10|cu[a-zA-Z]+|nccl|nv[a-zA-Z]+|nvshmem[_a-z]*)\.so|ld-linux)' || true
}

pack_bundle() {
  local folder=$1 program name path bytes
  [ ! -e commit ] || fail "--pack: this is a bundle already"
  [ ! -e "$folder" ] || [ -e "$folder/commit" ] || [ -z "$(ls -A "$folder")" ] ||
    fail "--pack $folder: there is something that is no bundle; name a new folder"
  if [ -z "$build" ]; then scripts/build.sh --cuda --target device_check; build=$PWD/build; fi
  rm -rf "$folder"
  mkdir -p "$folder/lib" "$folder/scripts" "$folder/corpus"
  cmake --install "$build" --component device_check --strip --prefix "$folder" >/dev/null
  for program in "$folder"/bin/*; do
    [ -x "$program" ] && libraries_of "$build/bin/${program##*/}"
  done | sort -u | while read -r name path; do cp -L "$path" "$folder/lib/$name"; done
  cp -r scripts/device_check.sh scripts/device_check scripts/demo "$folder/scripts/"
  rm -rf "$folder/scripts/device_check/__pycache__"
  find lib \( -name '*.h' -o -name '*.cpp' \) -exec cp --parents {} "$folder/corpus/" \;
  git describe --always --abbrev=40 --exclude='*' --dirty=' with changes' >"$folder/commit" 2>/dev/null || echo unknown >"$folder/commit"
  bytes=$(du -sb --apparent-size "$folder" | cut -f 1)
  echo "device_check: $folder: $((bytes >> 20)) MiB ($bytes bytes) in $(find "$folder" -type f | wc -l) files, of commit $(cat "$folder/commit")"
  [ "$bytes" -le $most_bytes ] || fail "the bundle is larger than 64 MiB"
}

if [ -n "$pack" ]; then pack_bundle "$pack"; exit 0; fi

# Collects everything that is missing, to report it at once.
missing=()
if [ -z "$rehearse" ]; then
  if ! command -v nvidia-smi >/dev/null; then
    missing+=("there is no nvidia-smi: install NVIDIA's driver for CUDA 13, or start the container with its GPUs (--gpus all)")
  elif ! gpus=$(nvidia-smi -L 2>&1) || [[ $gpus != GPU* ]]; then
    missing+=("nvidia-smi lists none: ${gpus:-it prints nothing}")
  fi
fi
python=${TESSERA_PYTHON:-python3} torch=${TESSERA_TORCH_DIR:-}
command -v "$python" >/dev/null || fail "there is no Python '$python'; let TESSERA_PYTHON name one"
[ ${#missing[@]} -eq 0 ] || fail "no GPU: ${missing[*]}. scripts/device_check.sh --pack FOLDER makes a bundle for a machine that has one"
[ -n "$torch" ] || torch=$("$python" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")')
[ -e "$torch/lib/libtorch_cpu.so" ] && [ -e "$torch/version.py" ] ||
  fail "no torch in '${torch}': install torch 2.11 for CUDA 13 into $python, or let TESSERA_TORCH_DIR name its folder torch"
grep -q "^__version__ = '2\.11\." "$torch/version.py" ||
  fail "torch in $torch is $(sed -n "s/^__version__ = //p" "$torch/version.py"), and the programs are built for 2.11"

# Programs of a bundle hold no library paths. The order is: torch's libraries, those of its nvidia packages and of an
# installed CUDA, the paths of this shell (which may be the only ones with the driver's), the bundle's.
library_path() {
  local folder path=$torch/lib
  for folder in "$torch"/../nvidia/*/lib "${CUDA_HOME:-/usr/local/cuda}/lib64"; do
    [ ! -d "$folder" ] || path+=:$folder
  done
  printf '%s' "$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:$PWD/lib"
}

arguments=(--root . --torch-dir "$torch" --python "$python" --budget "$budget" --command "$command")
arguments+=(--output "${output:-$PWD/output/device_check}")
if [ -e commit ]; then
  chmod +x bin/* 2>/dev/null || true  # some ways to copy a folder drop the executable bit
  arguments+=(--programs bin --corpus corpus --library-path "$(library_path)")
elif [ -n "$build" ]; then
  arguments+=(--programs "$build/bin" --corpus lib)
else
  arguments+=(--programs build/bin --corpus lib --build)
fi
exec python3 scripts/device_check/check.py "${arguments[@]}" $rehearse ${only:+--only "${only[@]}"}
