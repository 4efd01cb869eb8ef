"""Arithmetic on one small number per entry, all entries at once.

A *set* of entries is an integer whose bit `n` stands for row `n`. A *number per entry* is a list of sets, lowest
binary digit first: bit `n` of the i-th set is the i-th digit of row n's number. Adding, comparing and choosing the
largest then take a few operations on long integers instead of a step per entry (bit-sliced indexes: O'Neil & Quass
1997; sums and the choice of the largest: Rinfret, O'Neil & O'Neil 2001).
"""

from collections.abc import Collection, Iterable, Iterator, MutableSequence, Sequence
from functools import reduce

_DENSE = 32  # rows of which one in so many is in a set are faster written as binary digits


def from_rows(rows: Collection[int], highest: int) -> int:
    """Return the set of `rows`, none of them above `highest`."""
    if len(rows) * _DENSE > highest:
        digits = bytearray(b"0") * (highest + 1)
        for row in rows:
            digits[~row] = 49  # "1"
        return int(digits, 2)
    packed = bytearray(highest // 8 + 1)
    for row in rows:
        packed[row >> 3] |= 1 << (row & 7)
    return int.from_bytes(packed, "little")


def to_rows(entries: int) -> Iterator[int]:
    """Yield the rows of a set, lowest first."""
    digits = bin(entries)[:1:-1]
    row = digits.find("1")
    while row >= 0:
        yield row
        row = digits.find("1", row + 1)


def filled(number: Iterable[int]) -> int:
    """Return the set of entries whose number is not 0."""
    return reduce(int.__or__, number, 0)


def add(total: MutableSequence[int], number: Sequence[int], factor: int) -> None:
    """Add `factor` times `number` to `total`, for every entry; `total` grows as it must."""
    shift = 0
    while factor >> shift:
        if factor >> shift & 1:
            _add_shifted(total, number, shift)
        shift += 1


def _add_shifted(total: MutableSequence[int], number: Sequence[int], shift: int) -> None:
    total.extend([0] * (shift + len(number) - len(total)))
    carry = 0
    for place, digit in enumerate(number, shift):
        before = total[place]
        half = before ^ digit
        total[place] = half ^ carry
        carry = before & digit | half & carry
    place = shift + len(number)
    while carry:
        if place == len(total):
            total.append(carry)
            return
        before = total[place]
        total[place] = before ^ carry
        carry &= before
        place += 1


def largest(total: Sequence[int], among: int, count: int) -> int:
    """Return the set of those `among` with the largest numbers: `count` of them, and all that tie with the last."""
    chosen, tied = 0, among
    for digit in reversed(total):
        ones = tied & digit
        size = (chosen | ones).bit_count()
        if size > count:
            tied = ones
        else:
            chosen |= ones
            tied ^= ones
            if size == count:
                return chosen
    return chosen | tied


def at_least(total: Sequence[int], among: int, bound: int) -> int:
    """Return the set of those `among` whose number is `bound` or more."""
    if bound >> len(total):
        return 0
    above, equal = 0, among
    for place in reversed(range(len(total))):
        ones = equal & total[place]
        if bound >> place & 1:
            equal = ones
        else:
            above |= ones
            equal ^= ones
    return above | equal
