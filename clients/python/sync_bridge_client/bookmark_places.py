"""Where each bookmark is."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from .fields import text_of, texts_of

# The ids of the root folders with the titles that Firefox shows.
ROOT_TITLES = {
    "toolbar": "Bookmarks Toolbar",
    "menu": "Bookmarks Menu",
    "unfiled": "Other Bookmarks",
    "mobile": "Mobile Bookmarks",
}

# The parent of the roots. It has no record.
TOP_ID = "places"
# Where Firefox puts what has no folder.
_STRAY_FOLDER = "unfiled"


class _Item(Protocol):
    @property
    def kind(self) -> str: ...


ItemT = TypeVar("ItemT", bound=_Item)


@dataclass(frozen=True)
class Places:
    """Where each item is."""

    # The id of the folder of each item; `places` for the roots.
    parents: Mapping[str, str]
    # The ids in each folder, in order; also of records that are missing or unreadable.
    contents: Mapping[str, list[str]]


def places_of(
    items: Mapping[str, ItemT],
    fields_of: Callable[[ItemT], Mapping[str, Any]],
    elsewhere: Collection[str] = frozenset(),
) -> Places:
    """Decides where each bookmark, folder and separator is, once.

    That is in the folder that it names if that folder lists it, else in the first folder that lists it, else at the end of the folder that
    it names, else at the end of Other Bookmarks. Takes linear time, and any fields.

    `elsewhere`: the ids of folders that can't be decrypted. What names one of them stays there, below no root.
    """
    parents = _listed_parents(items, fields_of)
    contents: dict[str, list[str]] = {}
    for item_id, item in items.items():
        if item.kind == "folder":
            listed = dict.fromkeys(texts_of(fields_of(item).get("children")))
            contents[item_id] = [child for child in listed if parents.get(child) == item_id]

    def place(item_id: str, folder: str) -> None:
        parents[item_id] = folder
        contents.get(folder, []).append(item_id)

    for item_id, item in items.items():
        if item_id in ROOT_TITLES:
            parents[item_id] = TOP_ID
        if item_id in parents:
            continue
        named = text_of(fields_of(item).get("parentid"))
        exists = (named in contents and named != item_id) or named in elsewhere
        place(item_id, named if exists else _STRAY_FOLDER)
    for folder in _cycles(contents, parents):
        contents[parents[folder]].remove(folder)
        place(folder, _STRAY_FOLDER)
    return Places(parents, contents)


def _listed_parents(
    items: Mapping[str, ItemT], fields_of: Callable[[ItemT], Mapping[str, Any]]
) -> dict[str, str]:
    """The folder of each listed id: the one that it names, else the first that lists it."""
    parents: dict[str, str] = {}
    for folder, item in items.items():
        if item.kind != "folder":
            continue
        for each in texts_of(fields_of(item).get("children")):
            if each in (folder, TOP_ID) or each in ROOT_TITLES:
                continue
            if each not in parents or (each in items and text_of(fields_of(items[each]).get("parentid")) == folder):
                parents[each] = folder
    return parents


def _cycles(folders: Mapping[str, object], parents: Mapping[str, str]) -> list[str]:
    """One folder of each cycle: folders that contain each other are in no root."""
    rooted = set(ROOT_TITLES)
    found: list[str] = []
    for folder in folders:
        passed: set[str] = set()
        above = folder
        while above not in rooted and above not in passed and above in folders:
            passed.add(above)
            above = parents[above]
        if above in passed:
            found.append(above)
        rooted |= passed
    return found
