"""Reads what Firefox's engines write into their collections, whose fields `engine_fields.py` lists.

Readers take any record and never raise: a field of another type counts as absent, and `fault_of` names it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from .crypto import ClearRecord
from .engine_fields import FIELDS, NAMES, OTHER_NAMES
from .fields import fields_of, list_of, number_of, read_time_ms, text_of, texts_of

Kind = Literal["folder", "bookmark", "separator"]
# Larger numbers can't be ms. Some programs write microseconds, like Firefox's database.
_LATEST_MS = 100_000_000_000_000


@dataclass(frozen=True)
class Bookmark:
    """A record of `bookmarks`. A live bookmark (a feed, which Firefox dropped in version 64) and a saved search count as bookmarks."""

    kind: Kind
    title: str
    # Empty for folders and separators. Of a live bookmark, the URL of its feed.
    url: str
    # The site of a live bookmark.
    site_url: str
    tags: list[str]
    keyword: str
    description: str
    parent_id: str
    # The ids of a folder's contents, in order.
    child_ids: list[str]
    # In ms since 1970; 0 if unknown.
    added_ms: float


def read_bookmark(clear: ClearRecord) -> Bookmark:
    kind: Kind = "bookmark"
    if clear.get("type") == "folder":
        kind = "folder"
    elif clear.get("type") == "separator":
        kind = "separator"
    added = number_of(clear.get("dateAdded"))
    return Bookmark(
        kind=kind,
        title=text_of(clear.get("title")),
        url=text_of(clear.get("feedUri" if clear.get("type") == "livemark" else "bmkUri")),
        site_url=text_of(clear.get("siteUri")),
        tags=[text_of(tag) for tag in texts_of(clear.get("tags"))],
        keyword=text_of(clear.get("keyword")),
        description=text_of(clear.get("description")),
        parent_id=text_of(clear.get("parentid")),
        child_ids=texts_of(clear.get("children")),
        added_ms=read_time_ms(added / 1000 if added > _LATEST_MS else added),
    )


@dataclass(frozen=True)
class Visit:
    """A visit of a page; `kind` says how the user came to it, such as `link` or `typed`, and is empty if unknown."""

    at_ms: float
    kind: str


@dataclass(frozen=True)
class VisitedPage:
    """A record of `history`, with its visits, latest first."""

    url: str
    title: str
    visits: list[Visit]


# The kinds of visits, by Firefox's number.
_VISIT_KINDS = dict(
    enumerate(
        [
            "link",
            "typed",
            "bookmark",
            "embedded",
            "permanent redirect",
            "temporary redirect",
            "download",
            "framed link",
            "reload",
        ],
        1,
    )
)


def read_visited_page(clear: ClearRecord) -> VisitedPage:
    read = [fields_of(visit) for visit in list_of(clear.get("visits"))]
    visits = [
        Visit(read_time_ms(number_of(visit.get("date")) / 1000), _VISIT_KINDS.get(number_of(visit.get("type")), ""))  # type: ignore[call-overload]  # an equal float finds the key
        for visit in read
    ]
    dated = sorted((visit for visit in visits if visit.at_ms > 0), key=lambda visit: -visit.at_ms)
    return VisitedPage(text_of(clear.get("histUri")), text_of(clear.get("title")), dated)


@dataclass(frozen=True)
class Login:
    """A record of `passwords`; times are in ms since 1970, and 0 if unknown."""

    site: str
    # Where the form sends the password; empty for a login that is not in a form.
    form_site: str
    # What a server calls the area that it protects; empty for a login in a form.
    realm: str
    user_name: str
    password: str = field(repr=False)
    created_ms: float
    last_used_ms: float
    password_changed_ms: float


def read_login(clear: ClearRecord) -> Login:
    return Login(
        site=text_of(clear.get("hostname")),
        form_site=text_of(clear.get("formSubmitURL")),
        realm=text_of(clear.get("httpRealm")),
        user_name=text_of(clear.get("username")),
        password=text_of(clear.get("password")),
        created_ms=read_time_ms(number_of(clear.get("timeCreated"))),
        last_used_ms=read_time_ms(number_of(clear.get("timeLastUsed"))),
        password_changed_ms=read_time_ms(number_of(clear.get("timePasswordChanged"))),
    )


@dataclass(frozen=True)
class FormEntry:
    """A record of `forms`: what was typed into a field."""

    field: str
    value: str


def read_form_entry(clear: ClearRecord) -> FormEntry:
    return FormEntry(text_of(clear.get("name")), text_of(clear.get("value")))


@dataclass(frozen=True)
class Tab:
    """An open tab; `last_used_ms` is in ms since 1970, and 0 if unknown."""

    title: str
    url: str
    last_used_ms: float


def read_tabs(clear: ClearRecord) -> tuple[str, list[Tab]]:
    """Reads a record of `tabs`: the name of the device, and its tabs that have a URL."""
    tabs: list[Tab] = []
    for each in map(fields_of, list_of(clear.get("tabs"))):
        url = text_of(next(iter(list_of(each.get("urlHistory"))), ""))
        if url != "":
            tabs.append(Tab(text_of(each.get("title")), url, read_time_ms(number_of(each.get("lastUsed")) * 1000)))
    return text_of(clear.get("clientName")), tabs


@dataclass(frozen=True)
class Device:
    """A record of `clients`; `version` is that of Firefox."""

    name: str
    kind: Literal["phone", "tablet", "desktop"]
    system: str
    version: str


def read_device(clear: ClearRecord) -> Device:
    form = f"{text_of(clear.get('formfactor'))} {text_of(clear.get('type'))}"
    kind: Literal["phone", "tablet", "desktop"] = "desktop"
    if "tablet" in form:
        kind = "tablet"
    elif "phone" in form or "mobile" in form:
        kind = "phone"
    return Device(text_of(clear.get("name")), kind, text_of(clear.get("os")), text_of(clear.get("version")))


def read_entry(clear: ClearRecord) -> dict[str, Any]:
    """Reads a record of `addresses` or `creditcards`, whose fields are one level below."""
    return fields_of(clear.get("entry"))


def read_preferences(clear: ClearRecord) -> dict[str, Any]:
    """Reads a record of `prefs`: names and values."""
    return fields_of(clear.get("value"))


@dataclass(frozen=True)
class ExtensionData:
    """A record of `extension-storage`; `data` is JSON."""

    extension_id: str
    data: str


def read_extension_data(clear: ClearRecord) -> ExtensionData:
    return ExtensionData(text_of(clear.get("extId")), text_of(clear.get("data")))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


# Each type of a field: its check, and what it is called.
_TYPES: dict[str, tuple[Callable[[object], bool], str]] = {
    "text": (lambda value: isinstance(value, str), "text"),
    "number": (lambda value: not math.isnan(number_of(value)), "a number"),
    "texts": (_is_texts, "a list of texts"),
    "ids": (_is_texts, "a list of ids"),
    "records": (
        lambda value: isinstance(value, list) and all(isinstance(each, dict) for each in value),
        "a list of records",
    ),
    "record": (lambda value: isinstance(value, dict), "a record"),
}


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part != "")


def _bookmark_line(clear: ClearRecord) -> str:
    bookmark = read_bookmark(clear)
    if bookmark.kind == "separator":
        return "----"
    if bookmark.kind == "folder":
        return f"{bookmark.title}/"
    return _joined(bookmark.title, f"<{bookmark.url}>", *(f"#{tag}" for tag in bookmark.tags))


def _required_address(clear: ClearRecord) -> list[str]:
    if clear.get("type") in ("folder", "separator"):
        return []
    return ["feedUri" if clear.get("type") == "livemark" else "bmkUri"]


def _tabs_line(clear: ClearRecord) -> str:
    device, tabs = read_tabs(clear)
    return f"{device}: {len(tabs)} tabs"


def _meta_line(clear: ClearRecord) -> str:
    declined = ", ".join(sorted(texts_of(clear.get("declined"))))
    return (", ".join(sorted(fields_of(clear.get("engines")))) or "nothing") + (f"; not {declined}" if declined else "")


# More than the name of a record, in one line; never a secret. By default, the name.
_LINES: dict[str, Callable[[ClearRecord], str]] = {
    "bookmarks": _bookmark_line,
    "history": lambda clear: _joined(text_of(clear.get("title")), f"<{text_of(clear.get('histUri'))}>"),
    "passwords": lambda clear: _joined(text_of(clear.get("hostname")), text_of(clear.get("username"))),
    "forms": lambda clear: f"{text_of(clear.get('name'))}: {text_of(clear.get('value'))}",
    "tabs": _tabs_line,
    "prefs": lambda clear: f"{len(read_preferences(clear))} preferences",
    "meta": _meta_line,
}

# The fields without which a record means nothing.
_REQUIRED: dict[str, Callable[[ClearRecord], list[str]]] = {
    "bookmarks": _required_address,
    "history": lambda _: ["histUri"],
    "passwords": lambda _: ["hostname", "password"],
    "forms": lambda _: ["name"],
}


def _name_in(collection: str, clear: ClearRecord) -> str:
    place, names = NAMES.get(collection, OTHER_NAMES)
    if not names:
        return _LINES[collection](clear)
    fields = clear if place is None else fields_of(clear.get(place))
    return next((text for name in names if (text := text_of(fields.get(name))) != ""), "")


def _required(collection: str, clear: ClearRecord) -> list[str]:
    required = _REQUIRED.get(collection)
    return [] if required is None else required(clear)


def name_record(collection: str, clear: ClearRecord) -> str:
    """A short name for a record; its id if it has none."""
    name = "" if clear.get("deleted") is True else _name_in(collection, clear)
    return name or text_of(clear.get("id"))


def describe_record(collection: str, clear: ClearRecord) -> str:
    """Describes a record in one line; never shows a password. Empty for a deletion, which has no content."""
    if clear.get("deleted") is True:
        return ""
    line = _LINES.get(collection)
    return _name_in(collection, clear) if line is None else line(clear)


def fault_of(collection: str, clear: ClearRecord) -> str | None:
    """How a record differs from what its engine writes, such as `"children" is not a list of ids`; None if it does not."""
    if clear.get("deleted") is True:
        return None
    for name, kind in FIELDS.get(collection, {}).items():
        check, called = _TYPES[kind]
        value = clear.get(name)
        if value is not None and not check(value):
            return f'"{name}" is not {called}'
    missing = next((name for name in _required(collection, clear) if text_of(clear.get(name)) == ""), None)
    return None if missing is None else f'"{missing}" is missing'


def is_usable(collection: str, clear: ClearRecord) -> bool:
    """Whether a record has the fields without which it means nothing."""
    return all(text_of(clear.get(name)) != "" for name in _required(collection, clear))
