"""Reads fields of decrypted records. Other programs also write synced data, so any field may have any type."""

from __future__ import annotations

import json
from typing import Any, Iterable, List, Mapping


def text_of(value: object) -> str:
    """A printable string, or an empty one for any other type; unpaired surrogates become U+FFFD.

    Truncated titles contain them, and UTF-8 can't encode them.
    """
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else ""


def list_of(value: object) -> List[Any]:
    """A list, or an empty one for any other type."""
    return value if isinstance(value, list) else []


def names_of(names: Iterable[str]) -> List[str]:
    """A list of names. Raises TypeError for a string, because its letters would count as names."""
    if isinstance(names, str):
        raise TypeError(f"Expected a list of names, got the string {quoted(names)}")
    return list(names)


def tags_of(bookmark: Mapping[str, Any]) -> List[str]:
    return [tag for tag in list_of(bookmark.get("tags")) if isinstance(tag, str)]


def quoted(value: object) -> str:
    """A value in quotes, for messages."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
