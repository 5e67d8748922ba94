"""The tree of bookmarks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from .answers import StoredRecord
from .bookmark_places import ROOT_TITLES, TOP_ID, places_of
from .collection import SyncRecord, is_readable
from .crypto import ClearRecord
from .engines import Bookmark, Kind, read_bookmark
from .errors import ClientError
from .fields import quoted, text_of
from .spelling import composed, folded

# The ids of the root folders, which every account has.
BOOKMARK_ROOTS = tuple(ROOT_TITLES)


@dataclass(eq=False)
class BookmarkNode:
    """A bookmark, or a folder with its contents. All texts are printable; those in `clear` are unchanged."""

    record: SyncRecord
    clear: ClearRecord = field(repr=False)
    # The fields of the record.
    bookmark: Bookmark = field(repr=False)
    kind: Kind
    # Of a root folder, the one that Firefox shows.
    title: str
    children: "list[BookmarkNode]" = field(default_factory=list, repr=False)
    # None at level 1.
    parent: "BookmarkNode | None" = field(default=None, repr=False)
    level: int = 1
    # Its position among its siblings, starting at 1.
    position: int = 1
    siblings: int = 1
    # The number of bookmarks in a folder, including subfolders.
    count: int = 0

    @property
    def path(self) -> str:
        """The titles of its parent folders, separated by slashes; empty at the top level."""
        titles: list[str] = []
        above = self.parent
        while above is not None:
            titles.append(above.title)
            above = above.parent
        return " / ".join(reversed(titles))


def bookmark_tree(records: Iterable[SyncRecord]) -> list[BookmarkNode]:
    """Builds the tree of bookmarks, and returns its top level: the root folders, except for those that are missing and would be empty.

    `places_of` decides where each item is; what is in a folder that can't be decrypted is in Other Bookmarks. Leaves out deletions and
    records that can't be decrypted.
    """
    nodes: dict[str, BookmarkNode] = {}
    for record in records:
        if record.clear is None or not is_readable(record) or record.stored.id == TOP_ID:
            continue
        # A list that is read page by page may have a record twice.
        nodes.pop(record.stored.id, None)
        nodes[record.stored.id] = _node_of(record, record.clear)
    missing = [root_id for root_id in BOOKMARK_ROOTS if root_id not in nodes]
    for root_id in missing:
        nodes[root_id] = missing_root(root_id)
    for folder_id, ids in places_of(nodes, lambda node: node.clear).contents.items():
        folder = nodes[folder_id]
        for child in ids:
            if child in nodes:
                nodes[child].parent = folder
                folder.children.append(nodes[child])
    tops = [nodes[root_id] for root_id in BOOKMARK_ROOTS if nodes[root_id].children or root_id not in missing]
    _describe_places(tops)
    return tops


def _node_of(record: SyncRecord, clear: ClearRecord) -> BookmarkNode:
    # A root is a folder, whatever its record says.
    bookmark = read_bookmark({**clear, "type": "folder"} if record.stored.id in ROOT_TITLES else clear)
    title = bookmark.title
    # Firefox writes a root's id as its title, and shows a translated one.
    if title in ("", record.stored.id):
        title = ROOT_TITLES.get(record.stored.id, title)
    return BookmarkNode(record, clear, bookmark, bookmark.kind, title)


def missing_root(root_id: str) -> BookmarkNode:
    """An empty root folder, for an account that has no record of it."""
    clear: ClearRecord = {"id": root_id, "type": "folder"}
    return _node_of(SyncRecord("bookmarks", StoredRecord(root_id, 0), clear, None), clear)


def _describe_places(tops: list[BookmarkNode]) -> None:
    nodes = walk(tops)
    for position, top in enumerate(tops, 1):
        top.position, top.siblings = position, len(tops)
    for node in nodes:
        for position, child in enumerate(node.children, 1):
            child.level = node.level + 1
            child.position, child.siblings = position, len(node.children)
    for node in reversed(nodes):
        if node.parent is not None:
            node.parent.count += 1 if node.kind == "bookmark" else node.count


def walk(tops: Iterable[BookmarkNode]) -> list[BookmarkNode]:
    """Lists the nodes of a tree in order. Not recursive, so any depth works."""
    found: list[BookmarkNode] = []
    waiting = list(tops)[::-1]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting.extend(reversed(node.children))
    return found


# Deeper than a person nests folders; many programs fail at a few thousand levels.
DEEPEST_LEVEL = 200


@dataclass(frozen=True)
class Placed:
    """A node at its place in an export.

    `level` is 1 at the top of the export, and never above DEEPEST_LEVEL; `index` is its position in its list, starting at 0; `path` has
    the titles of its folders, separated by slashes.
    """

    node: BookmarkNode
    level: int
    index: int
    path: str


def flattened(tops: Iterable[BookmarkNode]) -> list[Placed]:
    """Lists the nodes of an export in order. What is deeper than DEEPEST_LEVEL is at that level, after its folder."""
    placed: list[Placed] = []
    waiting = [Placed(node, 1, index, node.path) for index, node in enumerate(tops)][::-1]
    while waiting:
        each = waiting.pop()
        placed.append(each)
        level, path = each.level, each.path
        if level < DEEPEST_LEVEL:
            level, path = level + 1, f"{path} / {each.node.title}" if path else each.node.title
        inside = [Placed(child, level, index, path) for index, child in enumerate(each.node.children)]
        waiting.extend(reversed(inside))
    return placed


Folder = TypeVar("Folder")


class Named(NamedTuple, Generic[Folder]):
    """A folder that can be named by its id or title; `path` has the titles of its folders, separated by slashes."""

    id: str
    title: str
    path: Callable[[], str]
    folder: Folder


def only_named(folders: Iterable[Named[Folder]], wanted: str) -> Folder:
    """Finds the only one of these folders with this id or title. Raises ClientError if there is none, or several."""
    folders = list(folders)
    found = _named(folders, wanted)
    if len(found) == 1:
        return found[0].folder
    if found:
        ids = ", ".join(each.id + (f" (in {path})" if (path := each.path()) else "") for each in found)
        raise ClientError(f"There are {len(found)} folders {quoted(wanted)}: use one of these ids: {ids}")
    meant = next((each for each in folders if folded(each.title) == folded(text_of(wanted))), None)
    hint = f": did you mean {quoted(meant.title)}?" if meant else ""
    raise ClientError(f"There is no folder {quoted(wanted)}{hint}")


def folders_named(tops: Iterable[BookmarkNode], wanted: str) -> list[BookmarkNode]:
    """Finds folders by id, or else by title, however its accents are composed and whatever kinds of spaces it has."""
    return [each.folder for each in _named(_folders_of(tops), wanted)]


def folder_named(tops: Iterable[BookmarkNode], wanted: str) -> BookmarkNode:
    """Finds the only folder with this id or title. Raises ClientError if there is none, or several."""
    return only_named(_folders_of(tops), wanted)


def _named(folders: list[Named[Folder]], wanted: str) -> list[Named[Folder]]:
    by_id = [each for each in folders if each.id == wanted]
    return by_id or [each for each in folders if composed(each.title) == composed(text_of(wanted))]


def _folders_of(tops: Iterable[BookmarkNode]) -> list[Named[BookmarkNode]]:
    folders = [node for node in walk(tops) if node.kind == "folder"]
    # On demand: in a deep tree, all paths together are long.
    return [Named(node.record.stored.id, node.title, partial(_path_of, node), node) for node in folders]


def _path_of(node: BookmarkNode) -> str:
    return node.path
