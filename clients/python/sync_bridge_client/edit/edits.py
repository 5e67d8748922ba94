"""Edits: changes as intentions, and not as states, so that they can be applied again to what others have changed meanwhile.

Applied twice, an edit has the effect of once.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..addresses import address_of, normalized
from ..bookmark_places import TOP_ID
from ..crypto import ClearRecord
from ..fields import text_of, trimmed
from .tree import Item, ItemKind, is_link

# Why an edit, or a part of one, was not applied: Firefox does not accept it; the item or the folder does not exist (any more); another
# device has changed the same field; another device has put an item into a folder that was to be removed.
ProblemCode = Literal["invalid", "gone", "folder-gone", "changed", "kept"]


@dataclass(frozen=True, kw_only=True)
class AddEdit:
    """Adds an item, or in other collections a record. A bookmark gets the tags and the keyword that its address has, besides its own."""

    address: str = ""
    title: str = ""
    tags: tuple[str, ...] | list[str] = ()
    keyword: str = ""
    kind: ItemKind = "bookmark"
    # The id of a folder.
    folder: str = "unfiled"
    # The id of the item before it; None for the first place, and empty for the end.
    after: str | None = ""
    # The id of the item behind it, if there is none before it (any more).
    before: str = ""
    # 12 characters of base64url; `edit` creates one.
    id: str = ""
    # In ms since 1970; by default, now.
    added_ms: float | None = None
    # Further fields of its record, such as those of one that is restored.
    record: ClearRecord | None = None


@dataclass(frozen=True)
class ChangeEdit:
    """Changes fields of an item: `title`, `address`, `tags`, `keyword`; in other collections, any. A field that is None is removed there.

    Tags and keyword belong to the address: its other bookmarks get them, too.
    """

    id: str
    fields: Mapping[str, Any]
    # The record that had these fields, if they are put back: they get its form, such as None for an empty title.
    record: ClearRecord | None = None


@dataclass(frozen=True)
class MoveEdit:
    """Moves an item to another folder, or within its folder; `after` and `before` as in AddEdit."""

    id: str
    folder: str
    after: str | None = ""
    before: str = ""
    # The record that was in this folder, if the item is put back: it names the folder in its form.
    record: ClearRecord | None = None


@dataclass(frozen=True)
class RemoveEdit:
    """Removes an item; a folder with what was shown in it. What others have put into it meanwhile stays, with its folder."""

    id: str
    # The ids that were shown below the folder; by default, all that the tree that was shown has there.
    shown: tuple[str, ...] | list[str] | None = None


Edit = AddEdit | ChangeEdit | MoveEdit | RemoveEdit


@dataclass(frozen=True)
class Problem:
    """An edit that was not applied; `id` is the item it is about, `message` a sentence without a full stop."""

    code: ProblemCode
    edit: Edit
    id: str
    message: str


# Firefox removes bookmarks with a longer address, truncates longer titles, and ignores longer tags.
_LONGEST_ADDRESS = 65_536
_LONGEST_TITLE = 4096
_LONGEST_TAG = 100
_LONGEST_SHOWN = 100


def _length(text: str) -> int:
    """Firefox counts UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def invalidity(kind: ItemKind, fields: Mapping[str, Any]) -> str | None:
    """Why Firefox would not keep these fields; None if it would."""
    title, address, tags = fields.get("title"), fields.get("address"), fields.get("tags")
    has_address = is_link(kind)
    if not has_address and (address or tags or fields.get("keyword")):
        return f"a {kind} has no address, tags or keyword"
    if kind == "separator" and title:
        return "a separator has no title"
    if title is not None and _length(title) > _LONGEST_TITLE:
        return f"a title of {_length(title)} characters is too long: Firefox keeps {_LONGEST_TITLE}"
    if address is not None and has_address:
        # Firefox encodes letters beyond ASCII, which makes it longer.
        length = max(_length(address), len(address_of({"bmkUri": address})))
        if length > _LONGEST_ADDRESS:
            return f"an address of {length} characters is too long: Firefox keeps {_LONGEST_ADDRESS}"
        if normalized(text_of(address)) is None:
            advice = "it must begin with https:// or similar, without spaces in its host"
            return f"{_shortened(address)} is no address: {advice}"
        if trimmed(address).lower().startswith("place:") != (kind == "query"):
            return f"a {kind} can't have the address {_shortened(address)}"
    for tag in tags or ():
        if trimmed(tag) == "" or _length(trimmed(tag)) > _LONGEST_TAG:
            advice = f"Firefox ignores blank tags, and those of more than {_LONGEST_TAG} characters"
            return f"the tag {_shortened(trimmed(tag))} is invalid: {advice}"
    return None


def normal_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields in the form that Firefox stores."""
    fields = dict(given)
    if fields.get("address") is not None:
        fields["address"] = address_of({"bmkUri": fields["address"]})
    # Firefox compares tags without case, and keeps the first spelling.
    if fields.get("tags") is not None:
        fields["tags"] = unique_tags(fields["tags"])
    if fields.get("keyword") is not None:
        fields["keyword"] = trimmed(fields["keyword"]).lower()
    return fields


def unique_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags without surrounding spaces and repetitions."""
    unique: dict[str, str] = {}
    for tag in map(trimmed, tags):
        if tag != "":
            unique.setdefault(tag.lower(), tag)
    return tuple(unique.values())


def item_label(item: Item | None, item_id: str) -> str:
    """Names an item in a message."""
    return _shortened((item and (item.title or item.address or item.id)) or item_id)


def _shortened(text: str) -> str:
    """A text in quotes, for a message."""
    return json.dumps(f"{text[:_LONGEST_SHOWN]}…" if len(text) > _LONGEST_SHOWN else text, ensure_ascii=False)


def is_root(item: Item) -> bool:
    """Whether an item is one of the root folders, which can't be changed."""
    return item.parent == TOP_ID
