"""A tree while edits are applied to it."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ..addresses import address_of
from ..fields import trimmed
from .tree import Item, Tree


class DraftTree:
    """Copies only what changes. Siblings are linked lists, so that thousands of moves in a large folder take linear time."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._items: dict[str, Item] = dict(tree.items)
        self._deleted: dict[str, int] = dict(tree.deleted)
        # The ids of items that were changed; a dict keeps their order.
        self._changed: dict[str, None] = {}
        # The neighbours of each id in a folder that was opened; None at the ends.
        self._next: dict[str, str | None] = {}
        self._previous: dict[str, str | None] = {}
        # The first and the last id of each opened folder.
        self._ends: dict[str, list[str | None]] = {}
        # The opened folder that lists an id.
        self._listed_in: dict[str, str] = {}
        self._by_address: dict[str, dict[str, None]] | None = None
        self._by_keyword: dict[str, dict[str, None]] | None = None

    def get(self, item_id: str) -> Item | None:
        return self._items.get(item_id)

    def below(self, folder: str) -> list[Item]:
        """The items below a folder, each folder before its contents."""
        found: list[Item] = []
        waiting = [folder]
        while waiting:
            item = self._items.get(waiting.pop())
            if item is None:
                continue
            item = replace(item, children=tuple(self.children_of(item.id)))
            if item.id != folder:
                found.append(item)
            waiting.extend(reversed(item.children))
        return found

    def is_within(self, item_id: str, folder: str) -> bool:
        """Whether an item is this folder or somewhere in it."""
        above: str | None = item_id
        while above is not None and above != folder:
            item = self._items.get(above)
            above = item.parent if item else None
        return above == folder

    def children_of(self, folder: str) -> list[str]:
        """The ids in a folder, in order; of unreadable records, too."""
        ends = self._ends.get(folder)
        if ends is None:
            item = self._items.get(folder)
            return list(item.children) if item else []
        children: list[str] = []
        each = ends[0]
        while each is not None:
            children.append(each)
            each = self._next.get(each)
        return children

    def with_address(self, address: str) -> list[Item]:
        """The bookmarks of an address, in any spelling."""
        if self._by_address is None:
            self._by_address = self._index(normal_address)
        return self._found(self._by_address.get(address_of({"bmkUri": address}), {}))

    def with_keyword(self, keyword: str) -> list[Item]:
        if self._by_keyword is None:
            self._by_keyword = self._index(normal_keyword)
        return self._found(self._by_keyword.get(trimmed(keyword).lower(), {}))

    def add(self, item: Item, folder: str, after: str | None, before: str) -> None:
        self._items[item.id] = item
        self._changed[item.id] = None
        self._enter(item)
        self.place(item.id, folder, after, before)

    def place(self, item_id: str, folder: str, after: str | None, before: str) -> None:
        """Puts an item, which may be elsewhere now, into a place."""
        ends = self._open(folder)
        first = ends[0]
        if self._items[item_id].parent != folder:
            self._edit(item_id, parent=folder)
        previous: str | None
        if after is None:
            previous = None
        elif after != item_id and self._listed_in.get(after) == folder:
            previous = after
        elif before != item_id and self._listed_in.get(before) == folder:
            previous = self._previous.get(before)
        else:
            previous = ends[1]
        if previous == item_id or (after is None and first == item_id):
            return
        self._detach(item_id)
        self._insert(item_id, folder, previous)

    def remove(self, item_id: str) -> None:
        """Removes an item from its folder, and from the tree."""
        item = self._items[item_id]
        self._open(item.parent)
        self._detach(item_id)
        self._leave(item)
        del self._items[item_id]
        self._changed.pop(item_id, None)
        if item.version is not None:
            self._deleted[item_id] = item.version

    def change(self, item_id: str, **fields: Any) -> None:
        """Changes fields of an item."""
        self._leave(self._items[item_id])
        self._enter(self._edit(item_id, **fields))

    def changed(self) -> list[Item]:
        """The items that were added or changed so far, without those that only got another place."""
        return self._found(self._changed)

    def finish(self) -> Tree:
        for folder in list(self._ends):
            self._close(folder)
        return Tree(self._items, self._deleted, self._tree.unreadable)

    def _edit(self, item_id: str, **fields: Any) -> Item:
        self._changed[item_id] = None
        self._items[item_id] = replace(self._items[item_id], **fields)
        return self._items[item_id]

    def _found(self, ids: Iterable[str]) -> list[Item]:
        return [self._items[each] for each in ids if each in self._items]

    def _open(self, folder: str) -> list[str | None]:
        if folder in self._ends:
            return self._ends[folder]
        last: str | None = None
        item = self._items.get(folder)
        children = item.children if item else ()
        for each in children:
            self._link(last, each)
            self._listed_in[each] = folder
            last = each
        if last is not None:
            self._next[last] = None
        self._ends[folder] = [children[0] if children else None, last]
        return self._ends[folder]

    def _link(self, previous: str | None, item_id: str) -> None:
        self._previous[item_id] = previous
        if previous is not None:
            self._next[previous] = item_id

    def _detach(self, item_id: str) -> None:
        # The folder that lists it may be another one than its new parent.
        folder = self._listed_in.get(item_id)
        if folder is None:
            former = self._tree.items.get(item_id)
            self._open(former.parent if former else self._items[item_id].parent)
            folder = self._listed_in.get(item_id)
        if folder is None:
            return
        ends = self._ends[folder]
        previous, following = self._previous.get(item_id), self._next.get(item_id)
        if previous is None:
            ends[0] = following
        else:
            self._next[previous] = following
        if following is None:
            ends[1] = previous
        else:
            self._previous[following] = previous
        del self._listed_in[item_id]

    def _insert(self, item_id: str, folder: str, previous: str | None) -> None:
        ends = self._ends[folder]
        following = ends[0] if previous is None else self._next.get(previous)
        self._link(previous, item_id)
        self._next[item_id] = following
        if following is None:
            ends[1] = item_id
        else:
            self._previous[following] = item_id
        if previous is None:
            ends[0] = item_id
        self._listed_in[item_id] = folder

    def _close(self, folder: str) -> None:
        """Writes the order of an opened folder into its items."""
        item = self._items.get(folder)
        if item is None:
            return
        children = tuple(self.children_of(folder))
        if children != item.children:
            self._edit(folder, children=children)
        for place, child in enumerate(each for each in children if each in self._items):
            if self._items[child].place != place:
                self._edit(child, place=place)

    def _index(self, key_of: Callable[[Item], str]) -> dict[str, dict[str, None]]:
        index: dict[str, dict[str, None]] = {}
        for item in self._items.values():
            _enter(index, key_of(item), item.id)
        return index

    def _enter(self, item: Item) -> None:
        if self._by_address is not None:
            _enter(self._by_address, normal_address(item), item.id)
        if self._by_keyword is not None:
            _enter(self._by_keyword, normal_keyword(item), item.id)

    def _leave(self, item: Item) -> None:
        if self._by_address is not None:
            self._by_address.get(normal_address(item), {}).pop(item.id, None)
        if self._by_keyword is not None:
            self._by_keyword.get(normal_keyword(item), {}).pop(item.id, None)


def _enter(index: dict[str, dict[str, None]], key: str, item_id: str) -> None:
    if key != "":
        index.setdefault(key, {})[item_id] = None


def normal_address(item: Item) -> str:
    """The address of a bookmark in the form that Firefox stores; empty for other items."""
    return address_of({"bmkUri": item.address})


def normal_keyword(item: Item) -> str:
    """A keyword in the form that Firefox stores."""
    return trimmed(item.keyword).lower()
