"""Bookmarks as a tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Literal, Optional

from .collection import SyncRecord, is_readable
from .crypto import ClearRecord
from .fields import list_of, text_of

_ROOT_TITLES = {
    "toolbar": "Bookmarks Toolbar",
    "menu": "Bookmarks Menu",
    "unfiled": "Other Bookmarks",
    "mobile": "Mobile Bookmarks",
}

# The ids of the folders at the top, which every account has.
BOOKMARK_ROOTS = tuple(_ROOT_TITLES)


@dataclass(eq=False)
class BookmarkNode:
    """A bookmark, or a folder with its contents. All texts can be printed; those of `clear` are as they were written."""

    record: SyncRecord
    clear: ClearRecord = field(repr=False)
    kind: Literal["folder", "bookmark", "separator"]
    title: str
    children: List["BookmarkNode"] = field(default_factory=list, repr=False)
    # None at the top, which is level 1.
    parent: Optional["BookmarkNode"] = field(default=None, repr=False)
    level: int = 1
    # Its number among `siblings`, itself included; the first is 1.
    position: int = 1
    siblings: int = 1
    # How many bookmarks are in there, and in the folders below.
    count: int = 0
    # The titles of the folders that it is in, with slashes between; empty at the top.
    path: str = ""


def bookmark_tree(records: Iterable[SyncRecord]) -> List[BookmarkNode]:
    """Bookmarks as their folders have them: a folder's `children` decides about order. Returns what is at the top.

    What no folder lists is shown in the folder that it names, and what names none that exists at the end. Records that can't be read and
    deletions are left out.
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
    # Folders that hold one another hang on nothing: one of each such circle comes to the top.
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
    title = text_of(clear.get("title")) or _ROOT_TITLES.get(record.stored.id, "")
    return BookmarkNode(record, clear, kind, title)


def _cut_circle(start: BookmarkNode) -> BookmarkNode:
    """Climbs from a node until one comes again, and takes that out of its folder."""
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
    """The nodes of a tree in their order. A tree may be of any depth."""
    found: List[BookmarkNode] = []
    waiting = list(tops)[::-1]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting.extend(reversed(node.children))
    return found


def folders_named(tops: Iterable[BookmarkNode], wanted: str) -> List[BookmarkNode]:
    """The folders of that id or title: an id goes before titles."""
    folders = [node for node in walk(tops) if node.kind == "folder"]
    by_id = [node for node in folders if node.record.stored.id == wanted]
    return by_id or [node for node in folders if node.title == text_of(wanted)]
