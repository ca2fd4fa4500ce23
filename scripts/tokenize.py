#!/usr/bin/env python3
"""Tokenises text or JSONL files into a .bin/.idx pair that tessera-train (and Megatron-Core) reads.

    scripts/tokenize.py --tokenizer tokenizer.json --output data/train [--append-eod TOKEN] FILE...

Needs the PyPI package `tokenizers` (pip install tokenizers). A text file is one document; in a .jsonl file each line is
one, with its text under --text-key. Special tokens of the tokenizer that a text spells out ("<|im_end|>") become their
special ids, unless --split-special-tokens is given. lib/data/megatron_file.h describes the format.
"""

import sys

if __name__ != "__main__":
    # Python puts the folder of a running script first in sys.path, so the scripts beside this one would import this file
    # in place of the standard module tokenize (inspect and linecache need that one): replace it by the standard module.
    _kept = sys.path[:]
    sys.path[:] = [p for p in sys.path if p not in ("", __file__.rpartition("/")[0])]
    del sys.modules[__name__]
    import tokenize as _standard

    sys.modules[__name__] = _standard
    sys.path[:] = _kept
else:
    sys.path.pop(0)  # for the same reason

    import argparse
    import array
    import json
    import os
    import struct

    TYPE_CODES = {"H": 8, "i": 4}  # uint16, int32: codes of Megatron-Core's DType


class Pair:
    """Writes a .bin/.idx pair, one sequence per document, under temporary names until close()."""

    def __init__(self, prefix, typecode):
        self.prefix, self.typecode = prefix, typecode
        self.lengths = array.array("i")
        self.bin = open(prefix + ".bin.tmp", "wb")

    def add(self, ids):
        self.bin.write(little_endian(array.array(self.typecode, ids)))
        self.lengths.append(len(ids))

    def close(self):
        self.bin.close()
        width = array.array(self.typecode).itemsize
        pointers, at = array.array("q"), 0
        for length in self.lengths:
            pointers.append(at)
            at += length * width
        documents = array.array("q", range(len(self.lengths) + 1))
        with open(self.prefix + ".idx.tmp", "wb") as idx:
            idx.write(b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, TYPE_CODES[self.typecode]))
            idx.write(struct.pack("<QQ", len(self.lengths), len(documents)))
            for numbers in (self.lengths, pointers, documents):
                idx.write(little_endian(numbers))
        os.replace(self.prefix + ".bin.tmp", self.prefix + ".bin")
        os.replace(self.prefix + ".idx.tmp", self.prefix + ".idx")

    def discard(self):
        self.bin.close()
        for name in (self.prefix + ".bin.tmp", self.prefix + ".idx.tmp"):
            if os.path.exists(name):
                os.remove(name)


def little_endian(numbers):
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def lookup(record, key):
    """Returns the value at a key, or at a path of keys joined by dots."""
    if key in record:
        return record[key]
    for part in key.split("."):
        record = record[part]
    return record


def decoded(line, place):
    """Decodes bytes; raises ValueError "place: reason" if they are not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{place}: byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not UTF-8") from None


def text_of_line(line, place, text_key):
    try:
        text = lookup(json.loads(line), text_key)
        if not isinstance(text, str):
            raise TypeError
    except (KeyError, TypeError):
        raise ValueError(f"{place}: no text under \"{text_key}\"; see --text-key") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: {error}") from None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{place}: the text has half a surrogate pair, \\u{ord(text[error.start]):04x}, at character "
                         f"{error.start + 1}") from None
    return text


def documents(path, text_key):
    """Yields (place, text) for each document of a file; raises ValueError "file:line: reason"."""
    with open(path, "rb") as file:
        if not path.endswith((".jsonl", ".ndjson", ".json")):
            yield path, "".join(decoded(line, f"{path}:{number}") for number, line in enumerate(file, 1))
            return
        for number, line in enumerate(file, 1):
            place = f"{path}:{number}"
            line = decoded(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line, place)
            if line.strip():
                yield place, text_of_line(line, place, text_key)


def ids_below(tokenizer):
    """Returns the vocabulary size that a model needs: the largest id plus 1. Ids may have gaps, so there may be fewer."""
    return max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1


def end_of_document(tokenizer, name):
    """Returns the id that --append-eod names, as a token or as a number, in a list; without the option, an empty list."""
    if name is None:
        return []
    known = tokenizer.token_to_id(name)
    if known is not None:
        return [known]
    is_id = name.isascii() and name.isdigit() and len(name) < 12 and int(name) < ids_below(tokenizer)
    if is_id and tokenizer.id_to_token(int(name)) is not None:
        return [int(name)]
    raise ValueError(f"--append-eod {name}: neither a token of the tokenizer nor the id of one")


def encoded(tokenizer, text, place):
    try:
        return tokenizer.encode(text, add_special_tokens=False).ids
    except Exception as error:  # the package raises bare Exception
        raise ValueError(f"{place}: {error}") from None


def run(options):
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ValueError("the Python package `tokenizers` is missing: pip install tokenizers") from None
    try:
        tokenizer = Tokenizer.from_file(options.tokenizer)
    except Exception as error:  # the package raises bare Exception
        raise ValueError(f"cannot read tokenizer {options.tokenizer}: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = options.split_special_tokens  # true: treats their characters as ordinary text
    eod = end_of_document(tokenizer, options.append_eod)
    vocabulary = ids_below(tokenizer)
    os.makedirs(os.path.dirname(options.output) or ".", exist_ok=True)
    pair = Pair(options.output, "H" if vocabulary < 65500 else "i")
    try:
        read = empty = tokens = 0
        for path in options.files:
            for place, text in documents(path, options.text_key):
                read += 1
                ids = encoded(tokenizer, text, place)
                if not ids:
                    empty += 1
                    continue
                pair.add(ids + eod)
                tokens += len(ids + eod)
        if tokens == 0:
            raise ValueError(f"no tokens: {read} documents read, {empty} empty")
        pair.close()
    except BaseException:
        pair.discard()
        raise
    print(f"{options.output}.bin/.idx: {read - empty} documents, {tokens} tokens, vocabulary {vocabulary}"
          + (f"; {empty} empty documents left out" if empty else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="text, or JSONL (.jsonl, .ndjson, .json)")
    parser.add_argument("--tokenizer", required=True, help="HuggingFace tokenizer.json")
    parser.add_argument("--output", required=True, metavar="PREFIX", help="writes PREFIX.bin and PREFIX.idx")
    parser.add_argument("--text-key", default="text", help="key of the text in JSONL, dots for nesting (default: text)")
    parser.add_argument("--append-eod", metavar="TOKEN", help="token (or its id) to add at the end of each document")
    parser.add_argument("--split-special-tokens", action="store_true",
                        help="read special tokens that a text spells out as text, not as their special ids")
    try:
        run(parser.parse_args())
    except (ValueError, OverflowError, OSError) as error:
        print(f"tokenize.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
