"""What is known while edits are applied: what they want, and what others have changed since they were made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .draft_tree import DraftTree
from .edits import AddEdit, ChangeEdit, Edit, MoveEdit, Problem, ProblemCode, RemoveEdit, normal_fields
from .tree import Item, Tree, same_tags

FIELDS = ("title", "address", "tags", "keyword")


@dataclass
class Work:
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


def goals_of(edits: Sequence[Edit]) -> dict[str, dict[str, Any]]:
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


def same_field(name: str, one: Item, other: Item) -> bool:
    """Whether two states of an item have the same value of a field, in the form that Firefox stores."""
    left, right = (normal_fields({name: getattr(item, name)})[name] for item in (one, other))
    return same_tags(left, right) if name == "tags" else bool(left == right)


def _with_goal(item: Item, goal: Mapping[str, Any]) -> Item:
    return replace(item, **{name: goal[name] for name in FIELDS if goal.get(name) is not None})


def is_changed(work: Work, item_id: str) -> bool:
    """Whether another device has changed an item since it was shown."""
    now, was = work.tree.items.get(item_id), work.shown.items.get(item_id)
    goal = work.goals.get(item_id, {}).get("parent")
    if now is not None and was is not None and now.parent != was.parent and now.parent != goal:
        return True
    return has_changed(work, item_id, FIELDS)


def has_changed(work: Work, item_id: str, names: Sequence[str]) -> bool:
    """Whether another device has changed one of these fields."""
    now, was = work.tree.items.get(item_id), work.shown.items.get(item_id)
    if now is None or was is None or now is was:
        return False
    goal = work.goals.get(item_id, {})
    aim = _with_goal(now, goal)
    return any(
        not same_field(name, now, was) and not (goal.get(name) is not None and same_field(name, now, aim)) for name in names
    )
