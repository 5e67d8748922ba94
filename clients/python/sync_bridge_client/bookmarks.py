"""The tree of bookmarks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Literal, Optional

from .collection import SyncRecord, is_readable
from .crypto import ClearRecord
from .fields import list_of, text_of

_ROOT_TITLES = {
    "toolbar": "Bookmarks Toolbar",
    "menu": "Bookmarks Menu",
    "unfiled": "Other Bookmarks",
    "mobile": "Mobile Bookmarks",
}

# The ids of the root folders, which every account has.
BOOKMARK_ROOTS = tuple(_ROOT_TITLES)


@dataclass(eq=False)
class BookmarkNode:
    """A bookmark, or a folder with its contents. All texts are printable; those in `clear` are unchanged."""

    record: SyncRecord
    clear: ClearRecord = field(repr=False)
    kind: Literal["folder", "bookmark", "separator"]
    title: str
    children: List["BookmarkNode"] = field(default_factory=list, repr=False)
    # None at level 1.
    parent: Optional["BookmarkNode"] = field(default=None, repr=False)
    level: int = 1
    # Its position among its siblings, starting at 1.
    position: int = 1
    siblings: int = 1
    # The number of bookmarks in a folder, including subfolders.
    count: int = 0
    # The titles of its parent folders, separated by slashes; empty at the top level.
    path: str = ""


def bookmark_tree(records: Iterable[SyncRecord]) -> List[BookmarkNode]:
    """Builds the tree of bookmarks, and returns its top level.

    A folder's `children` decides its contents and their order. A record that no folder lists goes to the end of its parent folder; without
    an existing parent, to the top level. Leaves out deletions and records that can't be decrypted.
    """
    nodes: Dict[str, BookmarkNode] = {}
    for record in records:
        if record.clear is not None and is_readable(record):
            nodes[record.stored.id] = _node_of(record, record.clear)
    roots = [nodes[id] for id in BOOKMARK_ROOTS if id in nodes]

    def place(child: Optional[BookmarkNode], parent: Optional[BookmarkNode]) -> None:
        if child is None or child.parent is not None or child in roots:
            return
        if parent is None or parent.kind != "folder" or parent is child:
            return
        child.parent = parent
        parent.children.append(child)

    for node in nodes.values():
        for id in list_of(node.clear.get("children")):
            place(nodes.get(id) if isinstance(id, str) else None, node)
    for node in nodes.values():
        parent_id = node.clear.get("parentid")
        place(node, nodes.get(parent_id) if isinstance(parent_id, str) else None)
    tops = roots + [node for node in nodes.values() if node.parent is None and node not in roots]
    seen = set(walk(tops))
    # Folders that contain each other are reachable from no root, so one folder of each cycle moves to the top level.
    for node in nodes.values():
        if node not in seen:
            top = _cut_circle(node)
            tops.append(top)
            seen.update(walk([top]))
    _describe_places(tops)
    return tops


def _node_of(record: SyncRecord, clear: ClearRecord) -> BookmarkNode:
    kind: Literal["folder", "bookmark", "separator"] = "bookmark"
    if clear.get("type") == "folder":
        kind = "folder"
    elif clear.get("type") == "separator":
        kind = "separator"
    title = text_of(clear.get("title"))
    # Firefox writes a root's id as its title, and shows a translated one.
    if title in ("", record.stored.id):
        title = _ROOT_TITLES.get(record.stored.id, title)
    return BookmarkNode(record, clear, kind, title)


def _cut_circle(start: BookmarkNode) -> BookmarkNode:
    """Follows the parents of a node to a cycle, and breaks it."""
    passed = set()
    node = start
    while node not in passed and node.parent is not None:
        passed.add(node)
        node = node.parent
    if node.parent is not None:
        node.parent.children.remove(node)
        node.parent = None
    return node


def _describe_places(tops: List[BookmarkNode]) -> None:
    nodes = walk(tops)
    for position, top in enumerate(tops, 1):
        top.position, top.siblings = position, len(tops)
    for node in nodes:
        inner = f"{node.path} / {node.title}" if node.path else node.title
        for position, child in enumerate(node.children, 1):
            child.path, child.level = inner, node.level + 1
            child.position, child.siblings = position, len(node.children)
    for node in reversed(nodes):
        if node.parent is not None:
            node.parent.count += 1 if node.kind == "bookmark" else node.count


def walk(tops: Iterable[BookmarkNode]) -> List[BookmarkNode]:
    """Lists the nodes of a tree in order. Not recursive, so any depth works."""
    found: List[BookmarkNode] = []
    waiting = list(tops)[::-1]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting.extend(reversed(node.children))
    return found


def folders_named(tops: Iterable[BookmarkNode], wanted: str) -> List[BookmarkNode]:
    """Finds folders by id, or else by title."""
    folders = [node for node in walk(tops) if node.kind == "folder"]
    by_id = [node for node in folders if node.record.stored.id == wanted]
    return by_id or [node for node in folders if node.title == text_of(wanted)]
