#!/usr/bin/env bash
# Fuzzes the readers of untrusted files (safetensors, manifests, sealed JSON, JSON, JSONL, pairs of Megatron-Core) with
# libFuzzer, which it installs first. Fails at the first input that crashes a reader, or makes it allocate much or run long.
#   scripts/fuzz.sh [SECONDS] [TARGET...]
#     SECONDS      time of all targets together (default 60)
#     TARGET       safetensors, manifest, sealed_json, json, jsonl, megatron (default all)
# Keeps inputs that cover new code in build-fuzz/. Put an input that makes a reader fail into test/fuzz/corpus/TARGET/, where
# the normal tests replay it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { printf 'fuzz: %s\n' "$*" >&2; exit 2; }

seconds=60
case ${1:-} in
  -h|--help) sed -n '2,10s/^# //p' "$0"; exit 0 ;;
  [0-9]*) seconds=$1; shift ;;
esac
[[ $seconds =~ ^[0-9]+$ ]] && [ "$seconds" -gt 0 ] || fail "'$seconds' is not a number of seconds"
all=(safetensors manifest sealed_json json jsonl megatron)
targets=("$@")
[ $# -gt 0 ] || targets=("${all[@]}")
for target in "${targets[@]}"; do
  [[ " ${all[*]} " == *" $target "* ]] || fail "there is no target '$target'; there are: ${all[*]}"
done

scripts/setup.sh --fuzz
folder=build-fuzz
mkdir -p $folder/objects
flags=(-std=c++20 -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -Ilib -Itest
       -DSPDLOG_COMPILED_LIB -DSPDLOG_SHARED_LIB -DSPDLOG_FMT_EXTERNAL)
sources=(lib/base/{disk_work,error,file,file_size_limit,hash,json,log,nearest,quantity,watched_bytes}.cpp
         lib/layout/block.cpp lib/checkpoint/{safetensors,manifest,sealed_json}.cpp
         lib/data/{jsonl_file,mapped_files,megatron_file,text_file}.cpp test/fuzz/targets.cpp)
objects=() compiling=()
for source in "${sources[@]}"; do
  object=$folder/objects/${source//\//-}.o
  objects+=("$object")
  clang++-16 "${flags[@]}" -fsanitize=fuzzer-no-link -c "$source" -o "$object" &
  compiling+=($!)
done
for process in "${compiling[@]}"; do wait "$process" || fail "a file does not compile (see above)"; done

for target in "${targets[@]}"; do
  clang++-16 "${flags[@]}" -fsanitize=fuzzer -DTESSERA_FUZZ_TARGET=read_$target test/fuzz/libfuzzer.cpp "${objects[@]}" \
      -lspdlog -lfmt -lxxhash -o $folder/$target
done

share=$((seconds / ${#targets[@]}))
[ $share -gt 0 ] || share=1
for target in "${targets[@]}"; do
  mkdir -p $folder/corpus/$target
  echo "fuzz: $target for $share s"
  log=$folder/$target.log
  # Inputs have at most 64 KiB, so a reader that allocates 64 MiB at once has trusted a number in the input.
  $folder/$target $folder/corpus/$target test/fuzz/corpus/$target -max_total_time=$share -max_len=65536 -timeout=10 \
      -malloc_limit_mb=64 -rss_limit_mb=1024 -dict=test/fuzz/dictionary.txt -artifact_prefix=$folder/found-$target- \
      -print_final_stats=1 >$log 2>&1 || {
    tail -n 40 $log >&2
    printf 'fuzz: %s fails on the input named above; fix the reader, then keep the input in test/fuzz/corpus/%s/\n' $target $target >&2
    exit 1
  }
  grep -E '^stat::number_of_executed_units|cov:' $log | tail -n 2
done
