"""Surrogate ids as the outside sees them.

Inside they are 63-bit integers, outside 13 characters of an alphabet without look-alikes, so that
no reader takes them for numbers and none loses digits.
"""

from __future__ import annotations

from functools import lru_cache

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_DIGITS = {letter: digit for digit, letter in enumerate(_ALPHABET)}
LENGTH = 13


@lru_cache(20_000)
def public(number: int) -> str:
    """A surrogate id as text.

    >>> public(1)
    '0000000000001'
    >>> number_of(public(1234567890123456789))
    1234567890123456789
    """
    return "".join([_ALPHABET[(number >> shift) & 31] for shift in range(60, -1, -5)])


def number_of(text: str) -> int | None:
    """The surrogate behind a public id, None where it cannot be one."""
    if len(text) != LENGTH:
        return None
    number = 0
    for letter in text:
        digit = _DIGITS.get(letter)
        if digit is None:
            return None
        number = (number << 5) | digit
    return number if number < 1 << 63 else None
