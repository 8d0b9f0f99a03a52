"""Sizes as people write them: 8 GiB as "8GiB", 500 million bytes as "500MB", a share as "50%"."""

import re
from typing import Optional, Union

Size = Union[int, str]

UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}

_SIZE_MAX = 2**64 - 1
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*|%)")
_BARE_MIN = 1024


def parse_size(value: Size, total_bytes: Optional[int] = None) -> int:
    """Bytes of an int or a text; `total_bytes` is what a percentage is a share of.

    What could mean two things is refused, as the library's own options do: a small number without a
    unit ("8"), a bare fraction, a blank inside, a unit such as "G".
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"a size is an int of bytes or a text such as '8GiB', not {value!r}")
    size = value if isinstance(value, int) else _parse_text(value, total_bytes)
    if not 0 <= size <= _SIZE_MAX:
        raise ValueError(f"the size {value!r} is not between 0 and 2**64 - 1 bytes")
    return size


def _parse_text(text: str, total_bytes: Optional[int]) -> int:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"the size {text!r} cannot be read: write '8GiB', '500MB' or '50%'")
    number, unit = match.groups()
    if unit == "%":
        return _share(text, float(number), total_bytes)
    if not unit and number.isdigit() and (int(number) == 0 or int(number) >= _BARE_MIN):
        return int(number)
    if not unit:
        raise ValueError(f"the size {text!r} is ambiguous: give its unit, as in '8GiB' or '8B'")
    if unit not in UNITS:
        known = ", ".join(UNITS)
        raise ValueError(f"the unit of the size {text!r} is none of {known}")
    whole, _, decimals = number.partition(".")
    scaled = int(whole + decimals) * UNITS[unit]
    size, rest = divmod(scaled, 10 ** len(decimals))
    if rest and unit == "B":
        raise ValueError(f"the size {text!r} is not a whole number of bytes")
    return size


def _share(text: str, percent: float, total_bytes: Optional[int]) -> int:
    if total_bytes is None:
        raise ValueError(f"the size {text!r} is a share, and there is no total here")
    if not 0 < percent <= 100:
        raise ValueError(f"the share {text!r} is not above 0% and up to 100%")
    return int(total_bytes * percent / 100)
