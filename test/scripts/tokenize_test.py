#!/usr/bin/env python3
"""If this failed, scripts/tokenize.py would write wrong ids, or meet a faulty input with a traceback instead of its place.
Without the PyPI package `tokenizers` the stand-in of tokenizers_double/ takes its place."""
import array
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "scripts/tokenize.py"


def tokenizer(far):
    """Of four words and one special token; the ids have a gap before `far`."""
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
            "decoder": None, "pre_tokenizer": {"type": "Whitespace"},
            "added_tokens": [{"id": 3, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False,
                              "normalized": False, "special": True}],
            "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "b": 2, "<|end|>": 3, "far": far}}}


class Tokenizing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tokenize(self, content, *options, name="d.jsonl", far=9):
        (self.folder / name).write_bytes(content)
        (self.folder / "tokenizer.json").write_text(json.dumps(tokenizer(far)))
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        if importlib.util.find_spec("tokenizers") is None:
            environment["PYTHONPATH"] = str(HERE / "tokenizers_double")
        return subprocess.run([sys.executable, SCRIPT, "--tokenizer", "tokenizer.json", "--output", "out", *options, name],
                              cwd=self.folder, env=environment, capture_output=True, text=True)

    def ids(self, *arguments, typecode="H", **how):
        done = self.tokenize(*arguments, **how)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return list(array.array(typecode, (self.folder / "out.bin").read_bytes())), done.stdout

    def assert_refused(self, reason, *arguments, **how):
        done = self.tokenize(*arguments, **how)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("tokenize.py: " + reason, done.stderr)
        self.assertEqual(sorted(path.name for path in self.folder.glob("out*")), [])

    def test_ids_beyond_a_gap_are_written_whole_and_the_vocabulary_reaches_them(self):
        ids, told = self.ids(b'{"text": "a far b"}\n', far=70000, typecode="i")
        self.assertEqual(ids, [1, 70000, 2])
        self.assertIn("vocabulary 70001", told)

    def test_the_end_of_a_document_is_a_token_or_the_id_of_one(self):
        for name, number in (("<|end|>", 3), ("3", 3), ("9", 9)):
            self.assertEqual(self.ids(b'{"text": "a"}\n', "--append-eod", name)[0], [1, number])

    def test_an_end_of_document_that_is_no_token_is_refused(self):
        for name in ("4", "10", "99999999999999999999", "-1", "end", "\u00b2"):
            self.assert_refused(f"--append-eod {name}: neither a token", b'{"text": "a"}\n', "--append-eod=" + name)

    def test_faulty_lines_are_refused_by_file_and_line(self):
        good = b'\xef\xbb\xbf{"text": "a"}\n\n'
        self.assert_refused("d.jsonl:3: byte 12 of the line (0xff) is not UTF-8", good + b'{"text": "a\xff"}\n')
        self.assert_refused("d.jsonl:3: the text has half a surrogate pair, \\ud800, at character 2",
                            good + b'{"text": "a\\ud800"}\n')
        self.assert_refused("d.jsonl:3: no text under \"text\"", good + b'{"text": 5}\n')
        self.assert_refused("d.jsonl:3: no text under \"text\"", good + b'[1]\n')
        self.assert_refused("d.jsonl:3: ", good + b'{"text": "a\n')
        self.assert_refused("d.jsonl:3: ", good + b'[' * 100000 + b'\n')
        self.assert_refused("d.txt:2: byte 2 of the line (0xe9) is not UTF-8", b'a\nb\xe9\n', name="d.txt")

    def test_special_tokens_that_a_text_spells_out_become_special_ids_unless_told_otherwise(self):
        line = b'{"text": "a <|end|> b"}\n'
        self.assertEqual(self.ids(line)[0], [1, 3, 2])
        self.assertEqual(self.ids(line, "--split-special-tokens")[0], [1, 0, 0, 0, 2])


if __name__ == "__main__":
    unittest.main()
