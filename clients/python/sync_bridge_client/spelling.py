"""Compares texts that people type with texts that they see."""

import re
import unicodedata


def composed(text: str) -> str:
    """A text with composed accents and plain spaces: both forms of "é", and a no-break space, look the same."""
    return _plain_spaces(unicodedata.normalize("NFC", text))


def folded(text: str) -> str:
    """A text for searching: composed, in lower case, without accents, so "uber" finds "Über"."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return _plain_spaces("".join(char for char in decomposed if not unicodedata.category(char).startswith("M")))


def _plain_spaces(text: str) -> str:
    return re.sub(r"[\s\ufeff]+", " ", text).strip()
