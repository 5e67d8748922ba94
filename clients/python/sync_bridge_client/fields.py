"""Reads values of any type: other programs also write synced data, so a field may have any type. None of these functions raises."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any, TypeGuard

# The end of the year 9999, in ms since 1970.
_LATEST_MS = 253_402_300_799_999


def text_of(value: object) -> str:
    """A printable string, or an empty one for any other type; unpaired surrogates become U+FFFD.

    Truncated titles contain them, and UTF-8 can't encode them.
    """
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else ""


def number_of(value: object) -> float:
    """A number or numeric string, otherwise NaN."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,17}(?:\.[0-9]{1,17})?", value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def read_time_ms(ms: float) -> float:
    """A time in ms since 1970; 0 if it is none."""
    return ms if 0 < ms <= _LATEST_MS else 0


def list_of(value: object) -> list[Any]:
    """A list, or an empty one for any other type."""
    return value if isinstance(value, list) else []


def texts_of(value: object) -> list[str]:
    """The strings of a list, such as the ids of a folder's children."""
    return [each for each in list_of(value) if isinstance(each, str)]


def fields_of(value: object) -> dict[str, Any]:
    """The fields of an object; none for any other type."""
    return value if isinstance(value, dict) else {}


# What Firefox trims; Python's own `strip` takes other characters.
_SPACES = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))


def trimmed(text: str) -> str:
    """A text without surrounding white space, as Firefox trims it."""
    return text.strip(_SPACES)


def is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def names_of(names: Iterable[str]) -> list[str]:
    """A list of names. Raises TypeError for a string, because its letters would count as names."""
    if isinstance(names, str):
        raise TypeError(f"Expected a list of names, got the string {quoted(names)}")
    return list(names)


def quoted(value: object) -> str:
    """A value in quotes, for messages."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
