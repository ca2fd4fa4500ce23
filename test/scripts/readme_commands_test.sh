#!/usr/bin/env bash
# If this failed, a command that a README shows would not run. Runs every block of the READMEs that begins with ```sh, in their
# order, in a folder that has the tree's files and these programs.
#   readme_commands_test.sh BIN      BIN: the folder of tessera-train and tessera-convert
set -euo pipefail
bin=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT

fail() { printf 'FAILED: %s\n' "$*"; exit 1; }

mkdir "$folder/build"
ln -s "$bin" "$folder/build/bin"
ln -s "$PWD"/{README.md,lib,parallel_plans,scripts} "$folder"
# A tokenizer, as a user has one; and the package that reads it, or its stand-in.
printf '%s\n' '{"version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,' \
    ' "decoder": null, "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": [],' \
    ' "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "document": 1}}}' >"$folder/tokenizer.json"
export PYTHONDONTWRITEBYTECODE=1
python3 -c 'import tokenizers' 2>/dev/null || export PYTHONPATH=$PWD/test/scripts/tokenizers_double

# blocks PAGE: its blocks, each ended by a record separator.
blocks() { awk '/^```sh$/ { inside = 1; next } /^```$/ { if (inside) printf "\036"; inside = 0; next } inside' "$1"; }

count=0
for page in README.md */README.md */*/README.md; do
  while IFS= read -r -d $'\036' block; do
    count=$((count + 1))
    printf '%s:\n%s' "$page" "$block"
    (cd "$folder" && bash -euo pipefail -c "$block") </dev/null >"$folder/log" 2>&1 ||
      fail "exit code $? of the block above: $(tail -n 20 "$folder/log")"
  done < <(blocks "$page")
done
[ "$count" -ge 8 ] || fail "only $count blocks were found"
