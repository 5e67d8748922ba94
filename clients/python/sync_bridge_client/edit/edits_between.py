"""The edits that lead from one tree to another."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..bookmark_places import ROOT_TITLES
from ..crypto import ClearRecord
from .apply_edits import apply_edits
from .draft_tree import normal_address, normal_keyword
from .edits import AddEdit, ChangeEdit, Edit, MoveEdit, RemoveEdit, is_root
from .order import staying_children
from .tree import Item, Tree, below, is_link, same_tags
from .work import same_field

_FIELDS = ("title", "address", "tags", "keyword")


def edits_between(shown: Tree, wanted: Tree, was_stored: bool = False) -> list[Edit]:
    """The edits that lead from the tree that was shown to the one that is wanted: as few moves as possible, folders before their contents.

    Applied to the tree that was shown, they result in the wanted one; applied to a later one, they keep what others have changed.
    `was_stored`: whether they lead to what was stored before, and so to its spelling; see `apply_edits`.
    """
    wanted = wanted if was_stored else _with_moved_keywords(shown, wanted)
    places: list[Edit] = []
    changes: list[ChangeEdit] = []
    is_same = _has_same_field if was_stored else same_field

    def form_of(item: Item) -> ClearRecord | None:
        return item.record if was_stored else None

    with_keyword = [item for item in shown.items.values() if item.keyword != "" and not was_stored]
    taken = {normal_keyword(item): normal_address(item) for item in with_keyword}
    folders = [root_id for root_id in ROOT_TITLES if root_id in wanted.items]
    while folders:
        folder = folders.pop()
        children = [each for each in wanted.items[folder].children if each in wanted.items]
        staying = staying_children(shown, folder, children)
        following = _following(children, staying)
        for index, each in enumerate(children):
            item, was = wanted.items[each], shown.items.get(each)
            after = None if index == 0 else children[index - 1]
            if was is None:
                spelled = item if was_stored else replace(item, address=normal_address(item))
                places.append(_add_of(spelled, folder, after, following[index], taken))
            elif each not in staying:
                places.append(MoveEdit(each, folder, after, following[index], form_of(item)))
            fields = _changed_fields(was, item, is_same) if was else {}
            if fields:
                changes.append(ChangeEdit(each, fields, form_of(item)))
            if item.kind == "folder":
                folders.append(each)
    # First, because a bookmark takes its tags to its new address, and gives none to bookmarks that are added to the former one.
    addresses = [edit for edit in changes if "address" in edit.fields]
    others = [edit for edit in changes if "address" not in edit.fields]
    # A keyword must be free before another bookmark has it again.
    first = [edit for edit in others if was_stored and edit.fields.get("keyword") == ""]
    last = [edit for edit in others if not was_stored or edit.fields.get("keyword") != ""]
    edits: list[Edit] = [*first, *addresses, *places, *last, *_removals(shown, wanted)]
    result = apply_edits(shown, edits, was_stored=was_stored).tree
    shared = _shared_changes(result, wanted, is_same)
    return [*edits, *(ChangeEdit(item.id, fields, form_of(item)) for item, fields in shared)]


def _with_moved_keywords(shown: Tree, wanted: Tree) -> Tree:
    """A keyword belongs to one address: where one gets it, the one that had it is wanted without it."""
    targets: dict[str, str] = {}
    with_keyword = [item for item in wanted.items.values() if item.keyword != ""]
    for item in with_keyword:
        was = shown.items.get(item.id)
        if was is None or not same_field("keyword", was, item) or not same_field("address", was, item):
            targets[normal_keyword(item)] = normal_address(item)
    lost = [item for item in with_keyword if targets.get(normal_keyword(item), normal_address(item)) != normal_address(item)]
    return replace(wanted, items={**wanted.items, **{item.id: replace(item, keyword="") for item in lost}}) if lost else wanted


_SameField = Callable[[str, Item, Item], bool]


def _has_same_field(name: str, one: Item, other: Item) -> bool:
    left, right = getattr(one, name), getattr(other, name)
    return same_tags(left, right) if name == "tags" else bool(left == right)


def _shared_changes(result: Tree, wanted: Tree, is_same: _SameField) -> list[tuple[Item, dict[str, Any]]]:
    """The tags and keywords that the edits leave otherwise than wanted: an address gives its own to what is added or moved to it."""
    shared: dict[str, Item | None] = {}
    for item in wanted.items.values():
        address = normal_address(item)
        other = shared.get(address, item)
        # What bookmarks of one address disagree about is not wanted by all.
        shared[address] = item if other is not None and _is_shared(other, item, is_same) else None
    changes: list[tuple[Item, dict[str, Any]]] = []
    for address, wanted_item in shared.items():
        present = wanted_item and result.items.get(wanted_item.id)
        if address != "" and wanted_item and present and not _is_shared(present, wanted_item, is_same):
            changes.append((wanted_item, _changed_fields(present, wanted_item, is_same)))
    return changes


def _is_shared(one: Item, other: Item, is_same: _SameField) -> bool:
    return is_same("tags", one, other) and is_same("keyword", one, other)


def _add_of(item: Item, folder: str, after: str | None, before: str, taken: Mapping[str, str]) -> AddEdit:
    """Without a keyword that was shown at another address: that one is changed once it is there."""
    has_address = is_link(item.kind)
    own = normal_address(item)
    is_free = item.keyword != "" and taken.get(normal_keyword(item), own) == own
    return AddEdit(
        id=item.id,
        kind=item.kind,
        folder=folder,
        after=after,
        before=before,
        title="" if item.kind == "separator" else item.title,
        address=item.address if has_address else "",
        tags=item.tags if has_address else (),
        keyword=item.keyword if has_address and is_free else "",
        added_ms=item.added_ms if item.added_ms > 0 else None,
        record=item.record if len(item.record) > 1 else None,
    )


def _changed_fields(was: Item, item: Item, is_same: _SameField) -> dict[str, Any]:
    if is_root(was):
        return {}
    return {name: getattr(item, name) for name in _FIELDS if not is_same(name, was, item)}


def _following(children: Sequence[str], staying: Collection[str]) -> list[str]:
    """For each child, the next one that stays; empty if there is none."""
    following: list[str] = []
    next_id = ""
    for each in reversed(children):
        following.append(next_id)
        if each in staying:
            next_id = each
    return following[::-1]


def _removals(shown: Tree, wanted: Tree) -> list[Edit]:
    """One edit for each removed item whose folder stays, with what was shown below it and is removed, too."""
    removed = {each for each in shown.items if each not in wanted.items}
    return [
        RemoveEdit(item.id, [each.id for each in below(shown.items, item.id) if each.id in removed])
        for item in shown.items.values()
        if item.id in removed and item.parent not in removed
    ]
