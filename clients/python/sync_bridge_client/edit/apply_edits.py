"""Applies edits to a tree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..addresses import address_of
from ..engines import read_bookmark
from ..fields import text_of
from .draft_tree import DraftTree
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
)
from .order import staying_children
from .shared_fields import change_address, free_keyword, giving, set_shared, share_fields, shared_keyword, shared_tags, take_keyword
from .tree import Item, Tree, below, is_link, version_of
from .work import FIELDS, Work, goals_of, has_changed, is_changed

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
    work = Work(tree, shown or tree, edits, was_stored, DraftTree(tree), goals_of(edits))
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
    share_fields(work)
    return Applied(work.draft.finish(), work.problems)


def _add(work: Work, edit: AddEdit) -> None:
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
    same = giving(work, address, edit.id) if has_address else []
    record = edit.record or {}
    item = Item(
        id=edit.id,
        kind=kind,
        title=fields["title"],
        address=address,
        tags=shared_tags([*(other.tags for other in same), fields["tags"]]),
        keyword=shared_keyword(same) or free_keyword(work, edit, address, fields["keyword"]),
        added_ms=read_bookmark(record).added_ms if edit.added_ms is None else edit.added_ms,
        record={**record, "id": edit.id},
        version=version_of(work.tree, edit.id),
    )
    draft.add(item, edit.folder, edit.after, edit.before)
    set_shared(work, item, item.tags, item.keyword)
    return None


def _change(work: Work, edit: ChangeEdit) -> None:
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
        change_address(work, edit, item, wanted["address"], "keyword" in wanted)
    present = work.draft.get(edit.id) or item
    if "tags" in wanted or "keyword" in wanted:
        keyword = take_keyword(work, edit, present, wanted["keyword"]) if "keyword" in wanted else present.keyword
        set_shared(work, present, wanted.get("tags", present.tags), keyword)
    _take_form(work, edit, ["bmkUri" if name == "address" else name for name in FIELDS if name in wanted])


def _take_form(work: Work, edit: ChangeEdit | MoveEdit, names: Sequence[str]) -> None:
    """Gives fields that were put back the form that they had: None, "" and no field are the same in an item."""
    item = work.draft.get(edit.id)
    if edit.record is None or item is None or item is work.tree.items.get(edit.id):
        return
    others = {name: value for name, value in item.record.items() if name not in names}
    stored = {name: edit.record[name] for name in names if name in edit.record}
    work.draft.change(edit.id, record={**others, **stored})


def _unconflicted(work: Work, edit: ChangeEdit) -> dict[str, Any]:
    """The fields to change, without those that another device has changed, which are reported."""
    fields = edit.fields if work.was_stored else normal_fields(edit.fields)
    wanted = {name: value for name, value in fields.items() if value is not None}
    now, was = work.tree.items.get(edit.id), work.shown.items.get(edit.id)
    for name in FIELDS:
        if name not in wanted or now is None or was is None:
            continue
        # Tags and keyword of a former address are not put back at another one.
        is_of_address = work.was_stored and name in ("tags", "keyword")
        if not has_changed(work, edit.id, (name, "address") if is_of_address else (name,)):
            continue
        del wanted[name]
        message = f"The {name} of {item_label(now, edit.id)} was changed {_ELSEWHERE}: it stays"
        work.report(edit, "changed", edit.id, message)
    return wanted


def _move(work: Work, edit: MoveEdit) -> None:
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


def _unmoved_in(work: Work, folder: str) -> set[str]:
    """The items of a folder that are, among the others, where they were shown, or where the edits put them."""
    if folder not in work.unmoved:
        children = work.tree.items[folder].children
        befores = [work.shown]
        if work.tree is not work.shown:
            befores.append(apply_edits(work.shown, work.edits, was_stored=work.was_stored).tree)
        work.unmoved[folder] = set[str]().union(*(staying_children(before, folder, children) for before in befores))
    return work.unmoved[folder]


def _remove(work: Work, edit: RemoveEdit) -> None:
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
        elif is_changed(work, each.id):
            keep(each, "changed", f"was changed {_ELSEWHERE}")
        elif any(child in work.tree.unreadable for child in each.children):
            keep(each, "kept", "contains a record that cannot be decrypted")

    present = {edit.id, *(each.id for each in contents)}
    for each_id in listed:
        elsewhere = None if each_id in present else draft.get(each_id)
        if elsewhere is not None and is_changed(work, each_id):
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


def _existing(work: Work, edit: Edit, item_id: str) -> Item | None:
    item = work.draft.get(item_id)
    if item is None:
        reason = "cannot be decrypted" if item_id in work.tree.unreadable else "does not exist any more"
        work.report(edit, "gone", item_id, f"{item_label(work.shown.items.get(item_id), item_id)} {reason}")
    return item


def _has_folder(work: Work, edit: AddEdit | MoveEdit, item_id: str, folder: str) -> bool:
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
