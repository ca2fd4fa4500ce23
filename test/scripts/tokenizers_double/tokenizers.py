"""Stands in for the PyPI package `tokenizers` where that is not installed: what scripts/tokenize.py calls of it, for a
tokenizer.json of whole words (model WordLevel, pre-tokenizer Whitespace)."""
import json
import re
import types


class Tokenizer:
    encode_special_tokens = False  # true: special tokens in a text are read as text

    def __init__(self, description):
        self._words = description["model"]["vocab"]
        self._unknown = description["model"]["unk_token"]
        self._special = {token["content"]: token["id"] for token in description["added_tokens"]}

    @staticmethod
    def from_file(path):
        with open(path, encoding="utf-8") as file:
            return Tokenizer(json.load(file))

    def no_truncation(self):
        pass

    def no_padding(self):
        pass

    def get_vocab(self, with_added_tokens=True):
        return {**self._words, **(self._special if with_added_tokens else {})}

    def get_vocab_size(self, with_added_tokens=True):
        return len(self.get_vocab(with_added_tokens))

    def token_to_id(self, token):
        return self.get_vocab().get(token)

    def id_to_token(self, number):
        return {value: token for token, value in self.get_vocab().items()}.get(number)

    def encode(self, text, add_special_tokens=True):
        text.encode("utf-8")  # the package refuses half a surrogate pair too
        special = "" if self.encode_special_tokens else "".join(re.escape(token) + "|" for token in self._special)
        known = self._words if self.encode_special_tokens else self.get_vocab()
        words = re.findall(special + r"\w+|[^\w\s]+", text)
        return types.SimpleNamespace(ids=[known.get(word, self._words[self._unknown]) for word in words])
