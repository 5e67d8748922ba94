"""Writes the result of edits in one transaction."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..answers import BridgeInfo, StoredRecord, TransactionResponse
from ..collection import SyncRecord
from ..crypto import ClearRecord
from ..errors import ClientError
from ..fields import quoted, text_of
from ..transactions import TransactionRequest
from .edit_requests import RecordWrite
from .edits import Edit, Problem
from .models import Model, model_of
from .saved import KeyClient, Saved, Savings, undoing

# How often edits are applied to what others have changed meanwhile.
_MAX_ATTEMPTS = 5
# A transaction of this many requests fits into every bridge.
_ALWAYS_FITS = 10
# Firefox itself uploads at most 2 MB at once.
_MAX_BYTES = 1_500_000

# Called before each write, with what undoes everything so far; nothing is written if it raises.
OnWrite = Callable[[Saved], None]


class EditClient(KeyClient, Protocol):
    """What saving needs of a client."""

    def encrypt(self, collection: str, clear: ClearRecord) -> str: ...

    def strict_transaction(
        self, requests: Iterable[TransactionRequest]
    ) -> tuple[list[TransactionResponse], bool]: ...

    def info(self) -> BridgeInfo: ...


@dataclass(frozen=True)
class SaveResult:
    """The result of saving edits."""

    # The edits, or their parts, that were not applied because another device changed the same.
    problems: list[Problem]
    # The number of records that were written.
    written: int
    # Pass it to `undo` to take the edits back; None if nothing was written.
    saved: Saved | None
    # The records afterwards.
    records: list[SyncRecord]


def save(
    client: EditClient,
    edits: Iterable[Edit],
    collection: str = "bookmarks",
    shown: Iterable[SyncRecord] | None = None,
    on_write: OnWrite | None = None,
    was_stored: bool = False,
) -> SaveResult:
    """Applies edits to what is stored now, and writes the result in one transaction.

    If a record has changed meanwhile, reads again and applies the same edits to that, five times at most. Raises ClientError: nothing was
    written then, unless its message says so.

    `was_stored`: whether the edits go back to what was stored before, as those of an undo: it is not checked as new input. What can't be
    applied is a problem, and does not refuse the rest; what does not fit into one transaction is written in several, each of which leaves a
    valid tree. Otherwise, this is done for additions and moves, and for records that are no bookmarks.
    """
    model = model_of(collection)
    completed = model.complete(list(edits))
    savings = Savings(client, collection)
    base = None if shown is None else model.read(shown)
    records: dict[str, SyncRecord] | None = None
    written = 0
    lost: ClientError | None = None
    # The number of records that fits into the storage's transaction, once it has refused more.
    limit = sys.maxsize
    attempts = 0
    while attempts < _MAX_ATTEMPTS:
        if records is None:
            records = _load(client, model, collection, completed, lost)
        savings.settle(records)
        state = model.read(records.values())
        base = state if base is None else base
        problems, writes = model.plan(state, completed, base, was_stored)
        if not was_stored:
            _refuse_invalid(problems)
        is_divisible = was_stored or model.is_divisible(completed)
        divisible = completed if is_divisible else None
        part = _fitting(client, model, divisible, state, base, was_stored, writes, limit, _effect_of(written))
        if not part:
            return SaveResult(problems, written, savings.saved, list(records.values()))
        payloads = {write.id: client.encrypt(collection, write.record) for write in part}
        savings.add(payloads, records)
        if on_write is not None and savings.saved is not None:
            on_write(savings.saved)
        requests = [_request_of(collection, write, payloads[write.id]) for write in part]
        try:
            responses, is_strict = client.strict_transaction(requests)
        except ClientError as error:
            if not error.may_be_applied:
                raise _explained(error, requests, written) from error
            # A lost response is followed by a look at what is there: the edits are applied to that.
            lost, records = error, None
            attempts += 1
            continue
        accepted = sum(1 for response in responses if response.status == 200)
        if accepted < len(responses):
            # A strict transaction that was refused has written nothing, whatever it answers for each request.
            written += 0 if is_strict else accepted
            is_too_large = len(part) > 1 and all(response.status == 413 for response in responses)
            # A part that is larger can't be divided further.
            if is_divisible and is_too_large and len(part) <= limit:
                limit = len(part) // 2
                continue
            _refuse_others(responses, part, written > 0, collection)
            records = None
            attempts += 1
            continue
        lost, attempts = None, 0
        written += len(part)
        for write, response in zip(part, responses, strict=True):
            data = response.body["data"]
            stored = StoredRecord(write.id, data["last_modified"], payloads[write.id], data.get("sortindex"))
            records[write.id] = SyncRecord(collection, stored, write.record, None)
        savings.settle(records)
        if len(part) == len(writes):
            return SaveResult(problems, written, savings.saved, list(records.values()))
    if lost is not None:
        raise lost
    times = f"other devices changed the same records {_MAX_ATTEMPTS} times meanwhile"
    raise ClientError(f"{_effect_of(written)}: {times}. Run it again", status=412, may_be_applied=written > 0)


def _effect_of(written: int) -> str:
    """For a message."""
    return "Only a part was written" if written > 0 else "Nothing was written"


def undo(client: EditClient, saved: Saved, on_write: OnWrite | None = None) -> SaveResult:
    """Takes back saved edits, except for what was changed since. Raises ClientError.

    In several transactions if they do not fit into one, as the edits may have been.
    """
    edits, shown = undoing(client, saved)
    return save(client, edits, saved.collection, shown, on_write, was_stored=True)


def _load(
    client: EditClient, model: Model, collection: str, edits: Sequence[Edit], lost: ClientError | None
) -> dict[str, SyncRecord]:
    try:
        return model.load(client.collection(collection), edits)
    except ClientError:
        if lost is not None:
            raise lost from None
        raise


def _refuse_invalid(problems: Iterable[Problem]) -> None:
    invalid = [problem.message for problem in problems if problem.code == "invalid"]
    if invalid:
        raise ClientError("\n".join(invalid))


def _fitting(
    client: EditClient,
    model: Model,
    edits: Sequence[Edit] | None,
    state: Any,
    base: Any,
    was_stored: bool,
    writes: list[RecordWrite],
    limit: int,
    effect: str,
) -> list[RecordWrite]:
    """The writes that one transaction takes: all, or as many as belong to the first edits.

    Raises ClientError if they must not be divided: `edits` is None then.
    """
    if len(writes) <= min(_ALWAYS_FITS, limit):
        return writes
    most = client.info().max_requests

    def fits(some: Sequence[RecordWrite]) -> bool:
        return len(some) <= min(most, limit) and sum(300 + 1.4 * len(json.dumps(write.record)) for write in some) <= _MAX_BYTES

    if fits(writes):
        return writes
    part = writes
    if edits is not None:
        edits = model.divided(edits, state, base)
        low, high = 1, len(edits)
        while low < high:
            middle = (low + high + 1) // 2
            if fits(model.plan(state, edits[:middle], base, was_stored)[1]):
                low = middle
            else:
                high = middle - 1
        part = []
        # Edits that change nothing may come before one that does.
        while not part:
            part = model.plan(state, edits[:low], base, was_stored)[1]
            low += 1
    if len(part) <= most:
        return part
    needed = f"this takes {len(part)} requests in one transaction, and the bridge allows {most}"
    raise ClientError(
        f"{effect}: {needed} (service.batch_max_requests). Change fewer items at once", status=413
    )


def _request_of(collection: str, write: RecordWrite, payload: str) -> TransactionRequest:
    condition = {"If-None-Match": "*"} if write.version is None else {"If-Match": f'"{write.version}"'}
    return TransactionRequest("PUT", collection, write.id, condition, {"payload": payload})


def _refuse_others(
    responses: Sequence[TransactionResponse], part: Sequence[RecordWrite], is_partly: bool, collection: str
) -> None:
    """Raises ClientError for a refusal that applying the edits again can't help."""
    effect = "Only a part was written" if is_partly else "Nothing was written"
    if len(responses) > _ALWAYS_FITS and all(response.status == 413 for response in responses):
        what = f"the storage does not take {len(responses)} records at once. Change fewer items at once"
        raise ClientError(f"{effect}: {what}", status=413, may_be_applied=is_partly)
    for write, response in zip(part, responses, strict=True):
        if response.status in (200, 412):
            continue
        what = f"writes to {collection} are not enabled on this bridge"
        if response.status != 405:
            what = _reason_of(response.status, write, response.body)
        raise ClientError(f"{effect}: {what}", status=response.status, may_be_applied=is_partly)


def _reason_of(status: int, write: RecordWrite, body: Mapping[str, Any]) -> str:
    children = write.record.get("children")
    if status == 413 and isinstance(children, list):
        title = quoted(write.record.get("title", write.id))
        return f"the folder {title} is too large for the storage with {len(children)} entries. Choose another one"
    return f"{quoted(write.id)} was refused: {status} {text_of(body.get('message'))}".rstrip()


def _explained(error: ClientError, requests: Sequence[TransactionRequest], written: int) -> ClientError:
    """Says how large a refused transaction was, and whether earlier ones were written."""
    reason = str(error)
    if error.status == 413:
        size = sum(len(str((request.data or {}).get("payload", ""))) for request in requests)
        what = f"{len(requests)} records of {size} bytes are too large for one transaction of this bridge"
        reason = f"{what} (service.max_request_bytes). Change fewer items at once"
    return ClientError(
        f"{_effect_of(written)}: {reason}",
        field=error.field,
        status=error.status,
        errno=error.errno,
        may_be_applied=written > 0,
    )
