"""What the fields of records say. Synced data may come from anybody, so every field may be of any type."""

from __future__ import annotations

import json
from typing import Any, List


def text_of(value: object) -> str:
    """A text that can be printed: what is none becomes an empty one, and half a surrogate pair becomes U+FFFD.

    Titles that were cut have such halves, and UTF-8 has no place for them.
    """
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else ""


def list_of(value: object) -> List[Any]:
    """What is no list becomes an empty one."""
    return value if isinstance(value, list) else []


def quoted(value: object) -> str:
    """A value as messages show it."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
