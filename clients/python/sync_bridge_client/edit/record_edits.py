"""Edits of the records in collections other than bookmarks, which don't depend on each other."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..collection import SyncRecord
from ..crypto import ClearRecord
from ..fields import quoted
from .edit_requests import RecordWrite
from .edits import AddEdit, ChangeEdit, Edit, MoveEdit, Problem, ProblemCode, RemoveEdit


@dataclass(frozen=True)
class RecordSet:
    """The records of a collection other than bookmarks, or some of them, as a value."""

    # Without deletions.
    records: Mapping[str, ClearRecord]
    # The timestamp of each stored record, deletions and unreadable ones included.
    versions: Mapping[str, int]
    # The ids of records that the key can't decrypt.
    unreadable: Collection[str]


def read_record_set(records: Iterable[SyncRecord]) -> RecordSet:
    """Reads the records of a collection, or some of them."""
    readable: dict[str, ClearRecord] = {}
    versions: dict[str, int] = {}
    unreadable: set[str] = set()
    for record in records:
        readable.pop(record.stored.id, None)
        versions[record.stored.id] = record.stored.last_modified
        if record.clear is None:
            unreadable.add(record.stored.id)
        elif record.clear.get("deleted") is not True:
            readable[record.stored.id] = record.clear
    return RecordSet(readable, versions, unreadable)


# A field that an undo removes: None is a value that Firefox stores.
_ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "absent"})()


def apply_record_edits(
    state: RecordSet, edits: Sequence[Edit], shown: RecordSet | None = None, was_stored: bool = False
) -> tuple[RecordSet, list[Problem]]:
    """Applies edits to records; pure. A field that has another value than in `shown` was changed by another device, and stays.

    `was_stored`: whether the edits are those of `record_edits_between`.
    """
    shown = shown or state
    absent = _ABSENT if was_stored else None
    records = dict(state.records)
    problems: list[Problem] = []
    for edit in edits:

        def report(code: ProblemCode, message: str, edit: Edit = edit) -> None:
            problems.append(Problem(code, edit, edit.id, f"{quoted(edit.id)} {message}"))

        now, was, record = state.records.get(edit.id), shown.records.get(edit.id), records.get(edit.id)
        if edit.id in state.unreadable:
            report("invalid" if isinstance(edit, AddEdit) else "gone", "cannot be decrypted")
        elif isinstance(edit, AddEdit):
            if edit.id == "":
                report("invalid", "is no id")
            elif record is None:
                records[edit.id] = {**(edit.record or {}), "id": edit.id}
        elif isinstance(edit, RemoveEdit):
            if now is not None and was is not None and now != was:
                report("changed", "was changed by another device meanwhile: it stays")
            else:
                records.pop(edit.id, None)
        elif isinstance(edit, MoveEdit):
            report("invalid", "has no folder")
        elif record is None:
            report("gone", "does not exist any more")
        else:
            fields = dict(edit.fields)
            for name, value in edit.fields.items():
                if now is None or was is None or now.get(name, absent) in (was.get(name, absent), value):
                    continue
                del fields[name]
                report("changed", f"has another {name} since another device changed it: it stays")
            merged = {**record, **fields, "id": edit.id}
            records[edit.id] = {name: value for name, value in merged.items() if fields.get(name, 0) is not absent}
    return replace(state, records=records), problems


def record_requests_of(before: RecordSet, after: RecordSet) -> list[RecordWrite]:
    """The records that differ, and a tombstone for each that was removed."""
    written = [(each, record) for each, record in after.records.items() if before.records.get(each) != record]
    removed = [each for each in before.records if each not in after.records]
    return [
        *(RecordWrite(each, record, before.versions.get(each)) for each, record in written),
        *(RecordWrite(each, {"id": each, "deleted": True}, before.versions.get(each)) for each in removed),
    ]


def record_edits_between(shown: RecordSet, wanted: RecordSet) -> list[Edit]:
    """The edits that lead from the records that were shown to those that are wanted."""
    edits: list[Edit] = []
    for each, record in wanted.records.items():
        was = shown.records.get(each)
        if was is None:
            edits.append(AddEdit(id=each, record=record))
            continue
        names = [name for name in {**was, **record} if was.get(name, _ABSENT) != record.get(name, _ABSENT)]
        changed = {name: record.get(name, _ABSENT) for name in names}
        if changed:
            edits.append(ChangeEdit(each, changed))
    edits.extend(RemoveEdit(each) for each in shown.records if each not in wanted.records)
    return edits
