#!/usr/bin/env python3
"""Prints the held-out cross entropy of a bigram model of bytes, in nats per token, which a trained model should beat.

    bigram.py --train FILE ... --eval FILE ...

Each file is a document: its bytes, then an end-of-document token (id 256), as in tessera-train's byte tokenizer. The model
is p(b | a) = (count(a, b) + alpha) / (count(a) + 257 alpha) over the training files. alpha is the best of four values for
the held-out files, which favours the bigram model. Prints only the number.
"""
import argparse
import math

TOKENS = 257
END = 256


def counts(paths):
    table = [[0] * TOKENS for _ in range(TOKENS)]
    last = None
    for path in paths:
        with open(path, "rb") as file:
            data = file.read()
        for token in (*data, END):
            if last is not None:
                table[last][token] += 1
            last = token
    return table


def cross_entropy(train, held_out, alpha):
    nats = tokens = 0
    for before, row in enumerate(held_out):
        total = sum(train[before]) + TOKENS * alpha
        for after, n in enumerate(row):
            if n:
                nats -= n * math.log((train[before][after] + alpha) / total)
                tokens += n
    return nats / tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs="+", required=True, help="files the counts are taken from")
    parser.add_argument("--eval", nargs="+", required=True, help="held-out files")
    arguments = parser.parse_args()
    train, held_out = counts(sorted(arguments.train)), counts(sorted(arguments.eval))
    if not any(map(sum, held_out)):
        raise SystemExit("bigram.py: the held-out files have no two tokens")
    print(min(cross_entropy(train, held_out, alpha) for alpha in (1e-3, 1e-2, 1e-1, 1.0)))


if __name__ == "__main__":
    main()
