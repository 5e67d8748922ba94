"""The addresses of bookmarks, in the form that Firefox stores: https://url.spec.whatwg.org/"""

from collections.abc import Mapping
from typing import Any

import ada_url

from .fields import text_of, texts_of


def address_of(bookmark: Mapping[str, Any]) -> str:
    """A bookmark's address in the form that Firefox stores; empty if it has none."""
    url = text_of(bookmark.get("bmkUri"))
    return normalized(url) or url


def shared_fields(bookmarks: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The tags and the keyword of bookmarks with the same `address_of`, from all of them.

    Firefox keeps both for the address: if it receives one of these bookmarks without them, all lose them. It compares tags
    without case: the first spelling remains.
    """
    tags: dict[str, str] = {}
    for tag in (tag for each in bookmarks for tag in texts_of(each.get("tags"))):
        tags.setdefault(tag.lower(), tag)
    shared: dict[str, Any] = {"tags": list(tags.values())}
    keywords = [each["keyword"] for each in bookmarks if text_of(each.get("keyword")) != ""]
    return {**shared, "keyword": keywords[0]} if keywords else shared


def normalized(url: str) -> str | None:
    """A URL in the form that Firefox stores; None if it is invalid."""
    try:
        parsed = ada_url.URL(url)
        # ada accepts labels that are no punycode, and Firefox does not.
        if all(map(_is_decodable, parsed.hostname.split("."))):
            return str(parsed.href)
    except ValueError:
        pass
    return None


def _is_decodable(label: str) -> bool:
    """Whether a label of a host is no punycode, or one for letters beyond ASCII. Raises ValueError for other punycode."""
    # The first letter beyond ASCII that a host may have is U+00A1.
    return not label.startswith("xn--") or max(label[4:].encode().decode("punycode"), default="") >= "\xa1"
