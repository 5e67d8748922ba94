"""What editing a collection means: bookmarks depend on each other, other records don't."""

import base64
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..collection import SyncRecord
from .apply_edits import apply_edits
from .edit_requests import RecordWrite, requests_of
from .edits import AddEdit, Edit, MoveEdit, Problem, RemoveEdit
from .edits_between import edits_between
from .record_edits import RecordSet, apply_record_edits, read_record_set, record_edits_between, record_requests_of
from .tree import Tree, below, read_tree

# More ids make reading everything faster.
_MAX_IDS = 400


class Records(Protocol):
    """The part of a collection that is needed to read what edits need."""

    def records(
        self, since: int | None = None, page_size: int | None = None, ids: Iterable[str] | None = None
    ) -> Iterator[SyncRecord]: ...


class Model(Protocol):
    """What editing one collection means. A state is only passed back to the model that made it."""

    def read(self, records: Iterable[SyncRecord]) -> Any: ...

    def complete(self, edits: Sequence[Edit]) -> list[Edit]:
        """Edits with the ids and dates of what they add."""

    def load(self, collection: Records, edits: Sequence[Edit]) -> dict[str, SyncRecord]:
        """Reads what the edits need."""

    def plan(
        self, state: Any, edits: Sequence[Edit], shown: Any, was_stored: bool = False
    ) -> tuple[list[Problem], list[RecordWrite]]:
        """`was_stored` as in `apply_edits`."""

    def is_divisible(self, edits: Sequence[Edit]) -> bool:
        """Whether edits may be written in several transactions."""

    def divided(self, edits: Sequence[Edit], state: Any, shown: Any) -> list[Edit]:
        """The same edits, of which each beginning leaves a valid state."""

    def back(self, shown: Any, wanted: Any) -> list[Edit]:
        """The edits that lead back to what was stored."""


def model_of(collection: str) -> Model:
    return _Bookmarks() if collection == "bookmarks" else _OtherRecords(collection)


class _Bookmarks:
    def read(self, records: Iterable[SyncRecord]) -> Tree:
        return read_tree(records)

    def complete(self, edits: Sequence[Edit]) -> list[Edit]:
        # Firefox requires it to be no later than the record's timestamp, which has a resolution of 10 ms.
        now_ms = int(time.time() * 1000) - 1000
        return [
            replace(
                edit,
                id=edit.id or new_id(),
                added_ms=now_ms if edit.added_ms is None and edit.record is None else edit.added_ms,
            )
            if isinstance(edit, AddEdit)
            else edit
            for edit in edits
        ]

    def load(self, collection: Records, _: Sequence[Edit]) -> dict[str, SyncRecord]:
        return {record.stored.id: record for record in collection.records()}

    def plan(
        self, state: Tree, edits: Sequence[Edit], shown: Tree, was_stored: bool = False
    ) -> tuple[list[Problem], list[RecordWrite]]:
        applied = apply_edits(state, edits, shown, was_stored)
        return applied.problems, requests_of(state, applied.tree)

    def is_divisible(self, edits: Sequence[Edit]) -> bool:
        return all(isinstance(edit, AddEdit | MoveEdit) for edit in edits)

    def divided(self, edits: Sequence[Edit], state: Tree, shown: Tree) -> list[Edit]:
        found: list[Edit] = []
        for edit in edits:
            if isinstance(edit, RemoveEdit):
                found += _removals_of(edit, state, shown)
            found.append(edit)
        return found

    def back(self, shown: Tree, wanted: Tree) -> list[Edit]:
        edits = edits_between(shown, wanted, was_stored=True)
        return [edit for edit in edits if not _is_stray(edit, shown, wanted)]


def _is_stray(edit: Edit, shown: Tree, wanted: Tree) -> bool:
    """Whether an edit moves what others have put into a new folder.

    Without that, it would be in Other Bookmarks, although its record is the same. It stays, with the folder.
    """
    if not isinstance(edit, MoveEdit):
        return False
    was, item = shown.items.get(edit.id), wanted.items.get(edit.id)
    return was is not None and item is not None and was.parent != edit.folder and was.record is item.record


def _removals_of(edit: RemoveEdit, tree: Tree, shown: Tree) -> list[Edit]:
    """The removal of what is in a folder, contents first: a folder that is gone before them would leave them to the folder above."""
    listed = {item.id for item in below(shown.items, edit.id)} if edit.shown is None else set(edit.shown)
    removals: list[Edit] = []
    for item in reversed(below(tree.items, edit.id)):
        if item.id in listed:
            contents = below(tree.items, item.id) if item.kind == "folder" else []
            removals.append(RemoveEdit(item.id, shown=[each.id for each in contents if each.id in listed]))
    return removals


class _OtherRecords:
    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, records: Iterable[SyncRecord]) -> RecordSet:
        return read_record_set(records)

    def complete(self, edits: Sequence[Edit]) -> list[Edit]:
        return [replace(edit, id=edit.id or _new_record_id(self._name)) if isinstance(edit, AddEdit) else edit for edit in edits]

    def load(self, collection: Records, edits: Sequence[Edit]) -> dict[str, SyncRecord]:
        ids = dict.fromkeys(edit.id for edit in edits)
        some = list(ids) if len(ids) <= _MAX_IDS else None
        return {record.stored.id: record for record in collection.records(ids=some)}

    def plan(
        self, state: RecordSet, edits: Sequence[Edit], shown: RecordSet, was_stored: bool = False
    ) -> tuple[list[Problem], list[RecordWrite]]:
        after, problems = apply_record_edits(state, edits, shown, was_stored)
        return problems, record_requests_of(state, after)

    def is_divisible(self, _: Sequence[Edit]) -> bool:
        return True

    def divided(self, edits: Sequence[Edit], _: RecordSet, __: RecordSet) -> list[Edit]:
        return list(edits)

    def back(self, shown: RecordSet, wanted: RecordSet) -> list[Edit]:
        return record_edits_between(shown, wanted)


def new_id() -> str:
    """Creates an id like Firefox: 12 characters of base64url."""
    return base64.urlsafe_b64encode(os.urandom(9)).decode()


def _new_record_id(collection: str) -> str:
    """Creates an id in the form that Firefox uses in a collection."""
    if collection == "passwords":
        return f"{{{uuid.uuid4()}}}"
    return uuid.uuid4().hex[:12] if collection in ("addresses", "creditcards") else new_id()
