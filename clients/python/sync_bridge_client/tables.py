"""CSV and JSON lists, in parts because they may be long."""

import datetime
from collections.abc import Callable, Iterable, Iterator

from .safe_text import for_spreadsheet, json_text


# Functions that write data as the parts of a text, by the name of their format.
Formats = dict[str, Callable[..., Iterator[str]]]


def iso_of(at_ms: float) -> str:
    """Formats a time as ISO 8601; empty for 0."""
    if at_ms <= 0:
        return ""
    seconds, ms = divmod(int(at_ms), 1000)
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms:03}Z" if moment.year >= 1000 else ""


def csv(columns: list[str], rows: Iterable[Iterable[str | float]], is_raw: bool = False) -> Iterator[str]:
    """Formats CSV (RFC 4180) with quotes around every cell. Texts are safe for spreadsheets, unless they are wanted raw."""
    yield _line(columns, is_raw)
    for row in rows:
        yield _line(row, is_raw)


def _line(cells: Iterable[str | float], is_raw: bool) -> str:
    return ",".join(_cell(cell, is_raw) for cell in cells) + "\r\n"


def _cell(cell: str | float, is_raw: bool) -> str:
    if not isinstance(cell, str):
        # Like JavaScript, which has no integers.
        text = str(int(cell)) if abs(cell) < 1e21 and cell == int(cell) else repr(cell)
    else:
        text = cell if is_raw else for_spreadsheet(cell)
    return '"' + text.replace('"', '""') + '"'


def json_list(items: Iterable[object]) -> Iterator[str]:
    """Formats a JSON list with an item on each line, as a file."""
    yield from json_lines(items)
    yield "\n"


def json_lines(items: Iterable[object]) -> Iterator[str]:
    """The same without a line break at the end."""
    is_empty = True
    for item in items:
        yield f"{'[' if is_empty else ','}\n{json_text(item)}"
        is_empty = False
    yield "[]" if is_empty else "\n]"
