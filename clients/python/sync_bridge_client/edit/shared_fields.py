"""Tags and keyword belong to an address: Firefox keeps them once for all its bookmarks, and each keyword for one address."""

from collections.abc import Sequence

from ..addresses import address_of
from ..fields import quoted, trimmed
from .draft_tree import normal_address, normal_keyword
from .edits import AddEdit, ChangeEdit, item_label, unique_tags
from .tree import Item, same_tags
from .work import Work, has_changed, is_changed, same_field


def set_shared(work: Work, one: Item, tags: Sequence[str], keyword: str) -> None:
    """Sets tags and keyword of a bookmark, and of all others of its address."""
    for item in [one] if one.address == "" else _sharing(work, one.address, one.id):
        if not same_tags(item.tags, tags) or item.keyword != keyword:
            work.draft.change(item.id, tags=tuple(tags), keyword=keyword)


def change_address(work: Work, edit: ChangeEdit, item: Item, address: str, is_given: bool) -> None:
    """Moves a bookmark to another address, as Firefox does: its tags go along, and so does its keyword if it was the last bookmark."""
    others = giving(work, address, item.id)
    work.draft.change(item.id, address=address)
    is_last = all(other.id == item.id for other in work.draft.with_address(item.address))
    tags = shared_tags([*(other.tags for other in others), item.tags])
    moved = work.draft.get(item.id) or item
    own = item.keyword if is_last else ""
    if work.was_stored and not is_given and not has_changed(work, item.id, ("keyword",)):
        own = take_keyword(work, edit, moved, item.keyword)
    set_shared(work, moved, tags, shared_keyword(others) or own)


def take_keyword(work: Work, edit: ChangeEdit, item: Item, keyword: str) -> str:
    """Takes a keyword from the bookmarks of other addresses; an undo leaves it to those that got it since.

    Returns the one that the item gets.
    """
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


def free_keyword(work: Work, edit: AddEdit, address: str, keyword: str) -> str:
    """The keyword, unless another address has it, which would lose it."""
    if keyword == "" or not _with_keyword_of(work, address, keyword):
        return keyword
    work.report(edit, "changed", edit.id, f"Added without its keyword {quoted(keyword)}, which another address has")
    return ""


def _with_keyword_of(work: Work, address: str, keyword: str) -> list[Item]:
    """The bookmarks of addresses other than this one that have the keyword.

    For an undo, only those that got it since, or that stay because they were changed since: the others had it then, too.
    """

    def is_in(item: Item | None) -> bool:
        return item is not None and normal_keyword(item) == trimmed(keyword).lower()

    def is_new(item_id: str) -> bool:
        now, was = work.tree.items.get(item_id), work.shown.items.get(item_id)
        if now is None or not is_in(now):
            return False
        is_kept = work.goals.get(item_id, {}).get("is_removed") is True and is_changed(work, item_id)
        return is_kept or was is None or not is_in(was) or not same_field("address", now, was)

    own = address_of({"bmkUri": address})
    others = [item for item in work.draft.with_keyword(keyword) if normal_address(item) != own]
    return [item for item in others if not work.was_stored or is_new(item.id)]


def _sharing(work: Work, address: str, own: str) -> list[Item]:
    """The bookmarks that share the tags and the keyword of an address, the one with this id included.

    An undo puts back what each had, also if they disagreed: there, only those share that others have added or changed since.
    """
    same = work.draft.with_address(address)
    if not work.was_stored:
        return same
    known = address_of({"bmkUri": address})
    is_late = _is_later(work, own)

    def is_sharing(item_id: str) -> bool:
        has_goal = work.goals.get(item_id, {}).get("address", known) != known
        is_leaving = has_goal and not has_changed(work, item_id, ("address",))
        return not is_leaving and (is_late or _is_later(work, item_id))

    return [item for item in same if item.id == own or is_sharing(item.id)]


def giving(work: Work, address: str, own: str) -> list[Item]:
    """The bookmarks of which one that comes to their address gets tags and keyword."""

    def is_leaving(item_id: str) -> bool:
        return work.was_stored and work.goals.get(item_id, {}).get("is_removed") is True

    return [item for item in _sharing(work, address, own) if item.id != own and not is_leaving(item.id)]


def _is_later(work: Work, item_id: str) -> bool:
    """Whether a bookmark was not at its address, or not with its tags and keyword, when what an undo puts back was there."""
    if item_id not in work.tree.items:
        return False
    if item_id not in work.shown.items:
        return item_id not in work.goals
    is_removed = work.goals.get(item_id, {}).get("is_removed") is True
    return is_removed or has_changed(work, item_id, ("address", "tags", "keyword"))


def shared_tags(all_tags: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The tags of all; as they are if all have the same."""
    is_shared = all(same_tags(tags, all_tags[-1]) for tags in all_tags)
    return all_tags[-1] if is_shared else unique_tags(tag for tags in all_tags for tag in tags)


def shared_keyword(items: Sequence[Item]) -> str:
    return next((item.keyword for item in items if item.keyword != ""), "")


def share_fields(work: Work) -> None:
    """A written bookmark must have what the others of its address have: Firefox would take it from them.

    What an undo puts back may disagree as it did before.
    """
    for item in work.draft.changed():
        same = [] if item.address == "" else work.draft.with_address(item.address)
        if len(same) < 2 or (work.was_stored and not any(_is_later(work, each.id) for each in same)):
            continue
        tags = shared_tags([each.tags for each in same])
        keyword = shared_keyword(same)
        present = work.draft.get(item.id)
        if present is not None and (not same_tags(present.tags, tags) or present.keyword != keyword):
            work.draft.change(item.id, tags=tags, keyword=keyword)
