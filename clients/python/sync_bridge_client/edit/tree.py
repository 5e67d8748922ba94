"""The bookmarks of an account as a value."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from ..answers import StoredRecord
from ..bookmark_places import ROOT_TITLES, TOP_ID, places_of
from ..bookmarks import Named, only_named
from ..collection import SyncRecord
from ..crypto import ClearRecord
from ..engines import read_bookmark

# What an item is. It never changes: Firefox stops syncing bookmarks if it does.
ItemKind = Literal["bookmark", "query", "folder", "livemark", "separator"]


def is_link(kind: str) -> bool:
    """Whether items of this kind have an address, tags and a keyword."""
    return kind in ("bookmark", "query")


@dataclass(frozen=True)
class Item:
    """A bookmark, folder or separator, with its place in the tree."""

    id: str
    kind: ItemKind = "bookmark"
    # The id of its folder; `places` for the roots.
    parent: str = ""
    # Its index among the items of its folder.
    place: int = 0
    title: str = ""
    # As stored; empty for folders and separators.
    address: str = ""
    tags: tuple[str, ...] = ()
    keyword: str = ""
    # In ms since 1970; 0 if unknown.
    added_ms: float = 0
    # When the record was last written, in ms since 1970; 0 if it never was.
    modified_ms: int = 0
    # The ids of what a folder contains, in order.
    children: tuple[str, ...] = ()
    # The decrypted record, as stored; without other fields than the id if there is none.
    record: ClearRecord = field(default_factory=dict, repr=False)
    # The timestamp of the stored record; None if there is none.
    version: int | None = None


@dataclass(frozen=True)
class Tree:
    """The bookmarks of an account as a value. Edits return a new one."""

    # By id. The four roots always exist.
    items: Mapping[str, Item]
    # The timestamps of tombstones, by id.
    deleted: Mapping[str, int] = field(default_factory=dict)
    # The ids of records that the key can't decrypt.
    unreadable: Collection[str] = frozenset()


def read_tree(records: Iterable[SyncRecord]) -> Tree:
    """Builds the tree from all records of the collection.

    Accepts invalid ones; `places_of` decides where each item is. Ids without a readable record stay in `children`, at their places. Takes
    linear time.
    """
    items: dict[str, Item] = {}
    deleted: dict[str, int] = {}
    unreadable: set[str] = set()
    for record in records:
        stored, clear = record.stored, record.clear
        # A list that is read page by page may have a record twice.
        items.pop(stored.id, None)
        deleted.pop(stored.id, None)
        unreadable.discard(stored.id)
        if stored.id == TOP_ID:
            continue
        if clear is None:
            unreadable.add(stored.id)
        elif clear.get("deleted") is True:
            deleted[stored.id] = stored.last_modified
        else:
            items[stored.id] = _read_item(stored, clear)
    for root_id in ROOT_TITLES:
        _add_root(root_id, items, deleted, unreadable)
    _place_all(items, deleted, unreadable)
    return Tree(items, deleted, unreadable)


def _read_item(stored: StoredRecord, record: ClearRecord, version: int | None = None) -> Item:
    bookmark = read_bookmark(record)
    kind = _kind_of(record)
    has_address = is_link(kind)
    title = bookmark.title
    # Firefox writes a root's id as its title, and shows a translated one.
    if title in ("", stored.id):
        title = ROOT_TITLES.get(stored.id, title)
    return Item(
        id=stored.id,
        kind=kind,
        title=title,
        address=bookmark.url if has_address else "",
        tags=tuple(bookmark.tags) if has_address else (),
        keyword=bookmark.keyword if has_address else "",
        added_ms=bookmark.added_ms,
        modified_ms=stored.last_modified,
        record=record,
        version=stored.last_modified if version is None else version,
    )


def _kind_of(record: ClearRecord) -> ItemKind:
    kind = record.get("type")
    for each in ("folder", "separator", "query", "livemark"):
        if kind == each:
            return each
    return "bookmark"


def _add_root(root_id: str, items: dict[str, Item], deleted: dict[str, int], unreadable: set[str]) -> None:
    """A root is a folder at the top, whatever its record says."""
    version = deleted.pop(root_id, None)
    root = items.get(root_id)
    if root is None:
        root = _read_item(StoredRecord(root_id, version or 0), {"id": root_id})
        root = replace(root, version=version)
    items[root_id] = replace(root, kind="folder", parent=TOP_ID, address="", tags=(), keyword="")
    # Its record would have to be overwritten without having been read.
    if root_id in unreadable:
        del items[root_id]


def _place_all(items: dict[str, Item], deleted: Mapping[str, int], unreadable: Collection[str]) -> None:
    where = places_of(items, lambda item: item.record, unreadable)
    contents = {folder: tuple(each for each in ids if each not in deleted) for folder, ids in where.contents.items()}
    places: dict[str, int] = {}
    for children in contents.values():
        for place, child in enumerate(each for each in children if each in items):
            places[child] = place
    for item_id, item in items.items():
        items[item_id] = replace(
            item,
            parent=where.parents[item_id],
            place=places.get(item_id, 0),
            children=contents.get(item_id, ()),
        )


def below(items: Mapping[str, Item], folder: str) -> list[Item]:
    """The items below a folder, each folder before its contents; without the folder itself."""
    found: list[Item] = []
    waiting = [folder]
    while waiting:
        item = items.get(waiting.pop())
        if item is None:
            continue
        if item.id != folder:
            found.append(item)
        waiting.extend(reversed(item.children))
    return found


def path_of(tree: Tree, item: Item) -> list[str]:
    """The titles of the folders that an item is in, outermost first."""
    path: list[str] = []
    above = tree.items.get(item.parent)
    while above is not None:
        path.append(above.title)
        above = tree.items.get(above.parent)
    return path[::-1]


def folder_called(tree: Tree, wanted: str) -> Item:
    """Finds the only folder with this id or title. Raises ClientError if there is none, or several."""
    folders = [item for item in tree.items.values() if item.kind == "folder"]
    # On demand: in a deep tree, all paths together are long.
    return only_named((Named(item.id, item.title, partial(_path, tree, item), item) for item in folders), wanted)


def _path(tree: Tree, item: Item) -> str:
    return " / ".join(path_of(tree, item))


def same_tags(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether two lists of tags are the same; their order has no meaning."""
    return set(one) == set(other)


def version_of(tree: Tree, record_id: str) -> int | None:
    """The timestamp that a write of this id depends on; None if no record has it."""
    item = tree.items.get(record_id)
    if item is not None and item.version is not None:
        return item.version
    return tree.deleted.get(record_id)
