"""Parses a list of records as it arrives, so that memory does not grow with the list."""

import codecs
from collections.abc import Callable, Iterable, Iterator

from .answers import StoredRecord, stored_records
from .crypto import read_json

# The text between two records. It can't occur inside a string, where quotes are escaped.
_BETWEEN = '},{"id":"'
_OPENING = '{"data":['
# Minimum number of characters to parse at once.
_MIN_CHARACTERS = 500_000


def parse_records(chunks: Iterable[bytes], broken_off: Callable[[], Exception]) -> Iterator[list[StoredRecord]]:
    """Yields the records of a list in parts. Raises `broken_off` if the text ends early, and ClientError if it is no list."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = ""
    is_first = True
    # Searching a long record again for each chunk would take quadratic time.
    enough = _MIN_CHARACTERS
    for chunk in chunks:
        text += decoder.decode(chunk)
        if len(text) < enough:
            continue
        end = text.rfind(_BETWEEN) + 1
        if end == 0:
            enough = 2 * len(text)
            continue
        yield _parse(f"{'' if is_first else _OPENING}{text[:end]}]}}", broken_off)
        text, is_first, enough = text[end + 1 :], False, _MIN_CHARACTERS
    text += decoder.decode(b"", final=True)
    yield _parse(text if is_first else _OPENING + text, broken_off)


def _parse(text: str, broken_off: Callable[[], Exception]) -> list[StoredRecord]:
    try:
        body = read_json(text)
    except (ValueError, RecursionError) as error:
        raise broken_off() from error
    return stored_records(body)
