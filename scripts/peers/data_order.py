"""Computes the order in which tessera-train trains on the windows of joined documents, independently of it.

The permutation is that of lib/base/random.h: six Feistel rounds, each with the bits of a Philox 4x32-10 block (Salmon
et al., SC 2011), over the smallest even number of bits that holds the number of windows; applied again until the result
is the number of a window.
"""
_DATA_ORDER = 0x9C45EDA72D4D1A9E  # XXH3 of "data order", the stream of epoch 0
_WORD = (1 << 32) - 1
_ROUNDS = 6
_LEAST_HALF_BITS = 3


def _philox_bits(seed, stream, counter):
    """Returns the first 64 bits of block `counter`."""
    c = [counter & _WORD, counter >> 32, stream & _WORD, stream >> 32]
    k = [seed & _WORD, seed >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & _WORD, (p0 >> 32) ^ c[3] ^ k[1], p0 & _WORD]
        k = [(k[0] + 0x9E3779B9) & _WORD, (k[1] + 0xBB67AE85) & _WORD]
    return c[1] << 32 | c[0]


class Permutation:
    """A permutation of range(count) that depends on (count, seed, stream) alone."""

    def __init__(self, count, seed, stream):
        self.count, self.seed, self.stream = count, seed, stream
        self.half_bits = _LEAST_HALF_BITS
        while 1 << (2 * self.half_bits) < count:
            self.half_bits += 1

    def _network(self, x):
        mask = (1 << self.half_bits) - 1
        left, right = x >> self.half_bits, x & mask
        for step in range(_ROUNDS):
            mixed = left ^ (_philox_bits(self.seed, self.stream, step << 32 | right) & mask)
            left, right = right, mixed
        return left << self.half_bits | right

    def __call__(self, place):
        if self.count < 2:
            return place
        x = self._network(place)
        while x >= self.count:
            x = self._network(x)
        return x


def window_order(windows, seed, epoch=0):
    """Returns the numbers of all windows in the order of an epoch."""
    stream = (_DATA_ORDER + epoch) & ((1 << 64) - 1)
    order = Permutation(windows, seed, stream)
    return [order(place) for place in range(windows)]
