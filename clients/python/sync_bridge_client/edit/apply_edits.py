"""Applies edits to a tree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..addresses import address_of
from ..engines import read_bookmark
from ..fields import quoted, text_of, trimmed
from .draft_tree import DraftTree, normal_address, normal_keyword
from .edits import (
    AddEdit,
    ChangeEdit,
    Edit,
    MoveEdit,
    Problem,
    ProblemCode,
    RemoveEdit,
    invalidity,
    is_root,
    item_label,
    normal_fields,
    unique_tags,
)
from .order import staying_children
from .tree import Item, Tree, below, is_link, same_tags, version_of

_FIELDS = ("title", "address", "tags", "keyword")
_ELSEWHERE = "by another device meanwhile"


@dataclass(frozen=True)
class Applied:
    """The result of applying edits; `problems` has the edits, or their parts, that were not applied."""

    tree: Tree
    problems: list[Problem]


def apply_edits(tree: Tree, edits: Sequence[Edit], shown: Tree | None = None, was_stored: bool = False) -> Applied:
    """Applies edits in their order; pure.

    Keeps what Firefox requires: no folder in itself, no item without a folder, roots and kinds as they are, one set of tags and one keyword
    for each address. `shown`: the tree that the edits were made for. A field that has another value in `tree` was changed by another device,
    and stays. `was_stored`: whether what the edits set was stored before, as in an undo: it is not checked as new input, and written as it
    was.
    """
    work = _Work(tree, shown or tree, edits, was_stored, DraftTree(tree), _goals_of(edits))
    for edit in edits:
        match edit:
            case AddEdit():
                _add(work, edit)
            case ChangeEdit():
                _change(work, edit)
            case MoveEdit():
                _move(work, edit)
            case RemoveEdit():
                _remove(work, edit)
    _share_fields(work)
    return Applied(work.draft.finish(), work.problems)


@dataclass
class _Work:
    tree: Tree
    shown: Tree
    edits: Sequence[Edit]
    was_stored: bool
    draft: DraftTree
    # What the edits want in the end, by id: if it is there already, no other device has changed it.
    goals: dict[str, dict[str, Any]]
    # What no other device has moved within a folder, by the id of the folder.
    unmoved: dict[str, set[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def report(self, edit: Edit, code: ProblemCode, item_id: str, message: str) -> None:
        self.problems.append(Problem(code, edit, item_id, message))


def _goals_of(edits: Sequence[Edit]) -> dict[str, dict[str, Any]]:
    goals: dict[str, dict[str, Any]] = {}
    for edit in edits:
        if isinstance(edit, AddEdit):
            goals[edit.id] = {}
        elif isinstance(edit, RemoveEdit):
            for each in (edit.id, *(edit.shown or ())):
                goals.setdefault(each, {})["is_removed"] = True
        elif isinstance(edit, MoveEdit):
            goals.setdefault(edit.id, {})["parent"] = edit.folder
        elif isinstance(edit, ChangeEdit):
            goals.setdefault(edit.id, {}).update(normal_fields(edit.fields))
    return goals


def _add(work: _Work, edit: AddEdit) -> None:
    draft, kind = work.draft, edit.kind

    def invalid(reason: str) -> None:
        name = item_label(Item("", kind, title=edit.title, address=edit.address), "")
        work.report(edit, "invalid", edit.id, f"Cannot add {name}: {reason}")

    if edit.id == "":
        return invalid("it has no id")
    # It was added before.
    if draft.get(edit.id) is not None:
        return None
    if edit.id in work.tree.unreadable:
        return invalid("a record that cannot be decrypted has its id")
    has_address = is_link(kind)
    address = edit.address if has_address else ""
    given: dict[str, Any] = {"title": edit.title, "tags": tuple(edit.tags), "keyword": edit.keyword, "address": address}
    fields = given if work.was_stored else normal_fields(given)
    address = fields["address"]
    reason = None if work.was_stored else invalidity(kind, {**given, "keyword": fields["keyword"]})
    if reason is not None:
        return invalid(reason)
    if not _has_folder(work, edit, edit.id, edit.folder):
        return None
    same = _giving(work, address, edit.id) if has_address else []
    record = edit.record or {}
    item = Item(
        id=edit.id,
        kind=kind,
        title=fields["title"],
        address=address,
        tags=_shared_tags([*(other.tags for other in same), fields["tags"]]),
        keyword=_shared_keyword(same) or _free_keyword(work, edit, address, fields["keyword"]),
        added_ms=read_bookmark(record).added_ms if edit.added_ms is None else edit.added_ms,
        record={**record, "id": edit.id},
        version=version_of(work.tree, edit.id),
    )
    draft.add(item, edit.folder, edit.after, edit.before)
    _set_shared(work, item, item.tags, item.keyword)
    return None


def _free_keyword(work: _Work, edit: AddEdit, address: str, keyword: str) -> str:
    """The keyword, unless another address has it, which would lose it."""
    if keyword == "" or not _with_keyword_of(work, address, keyword):
        return keyword
    work.report(edit, "changed", edit.id, f"Added without its keyword {quoted(keyword)}, which another address has")
    return ""


def _with_keyword_of(work: _Work, address: str, keyword: str) -> list[Item]:
    """The bookmarks of addresses other than this one that have the keyword.

    For an undo, only those that got it since, or that stay because they were changed since: the others had it then, too.
    """

    def is_in(item: Item | None) -> bool:
        return item is not None and normal_keyword(item) == trimmed(keyword).lower()

    def is_new(item_id: str) -> bool:
        now, was = work.tree.items.get(item_id), work.shown.items.get(item_id)
        if now is None or not is_in(now):
            return False
        is_kept = work.goals.get(item_id, {}).get("is_removed") is True and _is_changed(work, item_id)
        return is_kept or was is None or not is_in(was) or not same_field("address", now, was)

    own = address_of({"bmkUri": address})
    others = [item for item in work.draft.with_keyword(keyword) if normal_address(item) != own]
    return [item for item in others if not work.was_stored or is_new(item.id)]


def _change(work: _Work, edit: ChangeEdit) -> None:
    item = _existing(work, edit, edit.id)
    if item is None:
        return
    invalid = "it is a root folder" if is_root(item) else invalidity(item.kind, {} if work.was_stored else edit.fields)
    if invalid is not None:
        work.report(edit, "invalid", edit.id, f"Cannot change {item_label(item, edit.id)}: {invalid}")
        return
    wanted = _unconflicted(work, edit)
    if "title" in wanted and wanted["title"] != item.title:
        work.draft.change(edit.id, title=wanted["title"])
    known = item.address if work.was_stored else address_of({"bmkUri": item.address})
    if "address" in wanted and wanted["address"] != known:
        _change_address(work, edit, item, wanted["address"], "keyword" in wanted)
    present = work.draft.get(edit.id) or item
    if "tags" in wanted or "keyword" in wanted:
        keyword = _take_keyword(work, edit, present, wanted["keyword"]) if "keyword" in wanted else present.keyword
        _set_shared(work, present, wanted.get("tags", present.tags), keyword)
    _take_form(work, edit, ["bmkUri" if name == "address" else name for name in _FIELDS if name in wanted])


def _take_form(work: _Work, edit: ChangeEdit | MoveEdit, names: Sequence[str]) -> None:
    """Gives fields that were put back the form that they had: None, "" and no field are the same in an item."""
    item = work.draft.get(edit.id)
    if edit.record is None or item is None or item is work.tree.items.get(edit.id):
        return
    others = {name: value for name, value in item.record.items() if name not in names}
    stored = {name: edit.record[name] for name in names if name in edit.record}
    work.draft.change(edit.id, record={**others, **stored})


def _unconflicted(work: _Work, edit: ChangeEdit) -> dict[str, Any]:
    """The fields to change, without those that another device has changed, which are reported."""
    fields = edit.fields if work.was_stored else normal_fields(edit.fields)
    wanted = {name: value for name, value in fields.items() if value is not None}
    now, was = work.tree.items.get(edit.id), work.shown.items.get(edit.id)
    for name in _FIELDS:
        if name not in wanted or now is None or was is None:
            continue
        # Tags and keyword of a former address are not put back at another one.
        is_of_address = work.was_stored and name in ("tags", "keyword")
        if not _has_changed(work, edit.id, (name, "address") if is_of_address else (name,)):
            continue
        del wanted[name]
        message = f"The {name} of {item_label(now, edit.id)} was changed {_ELSEWHERE}: it stays"
        work.report(edit, "changed", edit.id, message)
    return wanted


def _with_goal(item: Item, goal: Mapping[str, Any]) -> Item:
    return replace(item, **{name: goal[name] for name in _FIELDS if goal.get(name) is not None})


def same_field(name: str, one: Item, other: Item) -> bool:
    """Whether two states of an item have the same value of a field, in the form that Firefox stores."""
    left, right = (normal_fields({name: getattr(item, name)})[name] for item in (one, other))
    return same_tags(left, right) if name == "tags" else bool(left == right)


def _change_address(work: _Work, edit: ChangeEdit, item: Item, address: str, is_given: bool) -> None:
    """Moves a bookmark to another address, as Firefox does: its tags go along, and so does its keyword if it was the last bookmark."""
    others = _giving(work, address, item.id)
    work.draft.change(item.id, address=address)
    is_last = all(other.id == item.id for other in work.draft.with_address(item.address))
    tags = _shared_tags([*(other.tags for other in others), item.tags])
    moved = work.draft.get(item.id) or item
    own = item.keyword if is_last else ""
    if work.was_stored and not is_given and not _has_changed(work, item.id, ("keyword",)):
        own = _take_keyword(work, edit, moved, item.keyword)
    _set_shared(work, moved, tags, _shared_keyword(others) or own)


def _take_keyword(work: _Work, edit: ChangeEdit, item: Item, keyword: str) -> str:
    """Takes a keyword from the bookmarks of other addresses; an undo leaves it to those that got it since. Returns the one that the item gets."""
    if keyword == "":
        return ""
    others = _with_keyword_of(work, item.address, keyword)
    if work.was_stored and others:
        message = f"{item_label(item, item.id)} does not get its keyword {quoted(keyword)} back, which another address has"
        work.report(edit, "changed", item.id, message)
        return ""
    for other in others:
        work.draft.change(other.id, keyword="")
    return keyword


def _sharing(work: _Work, address: str, own: str) -> list[Item]:
    """The bookmarks that share the tags and the keyword of an address, the one with this id included.

    An undo puts back what each had, also if they disagreed: there, only those share that others have added or changed since.
    """
    same = work.draft.with_address(address)
    if not work.was_stored or _is_later(work, own):
        return same
    return [item for item in same if item.id == own or _is_later(work, item.id)]


def _giving(work: _Work, address: str, own: str) -> list[Item]:
    """The bookmarks of which one that comes to their address gets tags and keyword."""

    def is_leaving(item_id: str) -> bool:
        return work.was_stored and work.goals.get(item_id, {}).get("is_removed") is True

    return [item for item in _sharing(work, address, own) if item.id != own and not is_leaving(item.id)]


def _is_later(work: _Work, item_id: str) -> bool:
    """Whether a bookmark was not at its address, or not with its tags and keyword, when what an undo puts back was there."""
    if item_id not in work.tree.items:
        return False
    if item_id not in work.shown.items:
        return item_id not in work.goals
    is_removed = work.goals.get(item_id, {}).get("is_removed") is True
    return is_removed or _has_changed(work, item_id, ("address", "tags", "keyword"))


def _set_shared(work: _Work, one: Item, tags: Sequence[str], keyword: str) -> None:
    """Sets tags and keyword of a bookmark, and of all others of its address."""
    for item in [one] if one.address == "" else _sharing(work, one.address, one.id):
        if not same_tags(item.tags, tags) or item.keyword != keyword:
            work.draft.change(item.id, tags=tuple(tags), keyword=keyword)


def _shared_tags(all_tags: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The tags of all; as they are if all have the same."""
    is_shared = all(same_tags(tags, all_tags[-1]) for tags in all_tags)
    return all_tags[-1] if is_shared else unique_tags(tag for tags in all_tags for tag in tags)


def _shared_keyword(items: Sequence[Item]) -> str:
    return next((item.keyword for item in items if item.keyword != ""), "")


def _share_fields(work: _Work) -> None:
    """A written bookmark must have what the others of its address have: Firefox would take it from them.

    What an undo puts back may disagree as it did before.
    """
    for item in work.draft.changed():
        same = [] if item.address == "" else work.draft.with_address(item.address)
        if len(same) < 2 or (work.was_stored and not any(_is_later(work, each.id) for each in same)):
            continue
        tags = _shared_tags([each.tags for each in same])
        keyword = _shared_keyword(same)
        present = work.draft.get(item.id)
        if present is not None and (not same_tags(present.tags, tags) or present.keyword != keyword):
            work.draft.change(item.id, tags=tags, keyword=keyword)


def _move(work: _Work, edit: MoveEdit) -> None:
    item = _existing(work, edit, edit.id)
    if item is None:
        return
    if is_root(item):
        work.report(edit, "invalid", edit.id, f"Cannot move {item_label(item, edit.id)}: it is a root folder")
        return
    if not _has_folder(work, edit, edit.id, edit.folder):
        return
    now, was = work.tree.items.get(edit.id), work.shown.items.get(edit.id)
    goal = work.goals.get(edit.id, {}).get("parent")
    if now is not None and was is not None and now.parent != was.parent and now.parent != goal:
        where = item_label(work.tree.items.get(now.parent), now.parent)
        message = f"{item_label(item, edit.id)} was moved to {where} {_ELSEWHERE}: it stays there"
        work.report(edit, "changed", edit.id, message)
        return
    is_inside = now is not None and was is not None and now.parent == edit.folder and was.parent == edit.folder
    if is_inside and edit.id not in _unmoved_in(work, edit.folder):
        where = item_label(work.draft.get(edit.folder), edit.folder)
        message = f"{item_label(item, edit.id)} was moved within {where} {_ELSEWHERE}: it stays there"
        work.report(edit, "changed", edit.id, message)
        return
    if work.draft.is_within(edit.folder, edit.id):
        target = item_label(work.draft.get(edit.folder), edit.folder)
        message = f"Cannot move {item_label(item, edit.id)} into {target}, which is in it"
        was_within = DraftTree(work.shown).is_within(edit.folder, edit.id)
        work.report(edit, "invalid" if was_within else "changed", edit.id, message)
        return
    work.draft.place(edit.id, edit.folder, edit.after, edit.before)
    is_other = now is None or now.parent != edit.folder
    if is_other and edit.record is not None and edit.record.get("parentid") == edit.folder:
        _take_form(work, edit, ["parentid", "parentName"])


def _unmoved_in(work: _Work, folder: str) -> set[str]:
    """The items of a folder that are, among the others, where they were shown, or where the edits put them."""
    if folder not in work.unmoved:
        children = work.tree.items[folder].children
        befores = [work.shown]
        if work.tree is not work.shown:
            befores.append(apply_edits(work.shown, work.edits, was_stored=work.was_stored).tree)
        work.unmoved[folder] = set[str]().union(*(staying_children(before, folder, children) for before in befores))
    return work.unmoved[folder]


def _remove(work: _Work, edit: RemoveEdit) -> None:
    draft = work.draft
    item = draft.get(edit.id)
    if item is not None and is_root(item):
        work.report(edit, "invalid", edit.id, f"Cannot remove {item_label(item, edit.id)}: it is a root folder")
        return
    contents = draft.below(edit.id)
    shown = [each.id for each in below(work.shown.items, edit.id)] if edit.shown is None else edit.shown
    listed = dict.fromkeys([edit.id, *shown])
    kept: set[str] = set()

    def keep(each: Item, code: ProblemCode, reason: str) -> None:
        kept.add(each.id)
        work.report(edit, code, each.id, f"{item_label(each, each.id)} {reason}: it stays")

    def judge(each: Item) -> None:
        if each.id not in listed:
            keep(each, "kept", f"was added {_ELSEWHERE}")
        elif _is_changed(work, each.id):
            keep(each, "changed", f"was changed {_ELSEWHERE}")
        elif any(child in work.tree.unreadable for child in each.children):
            keep(each, "kept", "contains a record that cannot be decrypted")

    present = {edit.id, *(each.id for each in contents)}
    for each_id in listed:
        elsewhere = None if each_id in present else draft.get(each_id)
        if elsewhere is not None and _is_changed(work, each_id):
            keep(elsewhere, "changed", f"was moved {_ELSEWHERE}")
    # It was removed before.
    if item is None:
        return
    judge(item)
    if edit.id in kept:
        return
    for each in contents:
        # What is in a folder that stays, stays, and needs no name.
        if each.parent in kept:
            kept.add(each.id)
        else:
            judge(each)
    for each in reversed(contents):
        if each.id in kept:
            kept.add(each.parent)
        else:
            draft.remove(each.id)
    if edit.id not in kept:
        draft.remove(edit.id)


def _is_changed(work: _Work, item_id: str) -> bool:
    """Whether another device has changed an item since it was shown."""
    now, was = work.tree.items.get(item_id), work.shown.items.get(item_id)
    goal = work.goals.get(item_id, {}).get("parent")
    if now is not None and was is not None and now.parent != was.parent and now.parent != goal:
        return True
    return _has_changed(work, item_id, _FIELDS)


def _has_changed(work: _Work, item_id: str, names: Sequence[str]) -> bool:
    """Whether another device has changed one of these fields."""
    now, was = work.tree.items.get(item_id), work.shown.items.get(item_id)
    if now is None or was is None or now is was:
        return False
    goal = work.goals.get(item_id, {})
    aim = _with_goal(now, goal)
    return any(
        not same_field(name, now, was) and not (goal.get(name) is not None and same_field(name, now, aim)) for name in names
    )


def _existing(work: _Work, edit: Edit, item_id: str) -> Item | None:
    item = work.draft.get(item_id)
    if item is None:
        reason = "cannot be decrypted" if item_id in work.tree.unreadable else "does not exist any more"
        work.report(edit, "gone", item_id, f"{item_label(work.shown.items.get(item_id), item_id)} {reason}")
    return item


def _has_folder(work: _Work, edit: AddEdit | MoveEdit, item_id: str, folder: str) -> bool:
    found = work.draft.get(folder)
    if found is not None and found.kind == "folder":
        return True
    was = found or work.shown.items.get(folder)
    named = text_of(edit.title or edit.address) if isinstance(edit, AddEdit) else ""
    title = item_label(work.draft.get(item_id), named or item_id)
    if was is not None and was.kind != "folder":
        message = f"Cannot put {title} into {item_label(was, folder)}: it is no folder"
        work.report(edit, "invalid", item_id, message)
    else:
        more = " any more" if was else ""
        message = f"Cannot put {title} into {item_label(was, folder)}: the folder does not exist{more}"
        work.report(edit, "folder-gone", item_id, message)
    return False
