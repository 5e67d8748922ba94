"""What undoes saved edits."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from ..account import Account
from ..answers import StoredRecord
from ..collection import Page, SyncRecord
from ..crypto import KeyPair, UnreadableRecord, collection_keys, decrypt_record
from ..errors import ClientError
from .edits import Edit, RemoveEdit
from .models import Records, model_of


@dataclass(frozen=True)
class SavedRecord:
    """A record as it was stored."""

    id: str
    payload: str


@dataclass(frozen=True)
class Saved:
    """What undoes saved edits: the records before and after, encrypted as stored. `dataclasses.asdict` makes it JSON."""

    # The account: another one can't undo it.
    key_id: str
    collection: str
    # The record `crypto/keys` of that time, encrypted with the sync key.
    keys: SavedRecord
    # The records that were overwritten; none for those that were added.
    before: list[SavedRecord]
    after: list[SavedRecord]
    # The timestamp of the newest record that there was: what is newer was written since.
    as_of_ms: int = 0


class StoredCollection(Records, Protocol):
    def stored_pages(
        self, since: int | None = None, page_size: int | None = None, ids: Iterable[str] | None = None
    ) -> Iterator[Page[StoredRecord]]: ...


class KeyClient(Protocol):
    """What is needed to keep and to undo edits."""

    account: Account

    def collection(self, name: str) -> StoredCollection: ...

    def keys_of(self, collection: str) -> KeyPair: ...


@dataclass(frozen=True)
class _Change:
    # None if there was no record.
    before: SavedRecord | None
    after: SavedRecord


class Savings:
    """Collects what undoes the writes of one save."""

    def __init__(self, client: KeyClient, collection: str) -> None:
        self._client = client
        self._collection = collection
        self._keys: SavedRecord | None = None
        self._as_of_ms: int | None = None
        self._written: dict[str, _Change] = {}
        # What was sent, but may have been refused.
        self._sent: dict[str, _Change] = {}

    @property
    def saved(self) -> Saved | None:
        """None if nothing was sent."""
        changes = list({**self._written, **self._sent}.values())
        if self._keys is None or not changes:
            return None
        before = [change.before for change in changes if change.before is not None]
        after = [change.after for change in changes]
        return Saved(self._client.account.key_id, self._collection, self._keys, before, after, self._as_of_ms or 0)

    def settle(self, records: Mapping[str, SyncRecord]) -> None:
        """Keeps of what was sent only what is stored now."""
        for record_id, change in self._sent.items():
            record = records.get(record_id)
            if record is not None and record.stored.payload == change.after.payload:
                self._written[record_id] = change
        self._sent = {}

    def add(self, payloads: Mapping[str, str], records: Mapping[str, SyncRecord]) -> None:
        """Adds what is about to be sent; `records` are those that it replaces."""
        if self._keys is None:
            self._keys = _read_keys(self._client)
        # Of the first transaction, because the next ones have timestamps of their own.
        if self._as_of_ms is None:
            self._as_of_ms = max((record.stored.last_modified for record in records.values()), default=0)
        for record_id, payload in payloads.items():
            record = records.get(record_id)
            replaced = None if record is None else record.stored.payload
            before = None if replaced is None else SavedRecord(record_id, replaced)
            # What an earlier transaction of the same edits has overwritten is what to go back to.
            if record_id in self._written:
                before = self._written[record_id].before
            self._sent[record_id] = _Change(before, SavedRecord(record_id, payload))


def _read_keys(client: KeyClient) -> SavedRecord:
    for page in client.collection("crypto").stored_pages():
        for record in page.records:
            if record.id == "keys" and record.payload is not None:
                return SavedRecord("keys", record.payload)
    raise ClientError("This account has no keys yet: has any Firefox synced to it?", status=404)


def undoing(client: KeyClient, saved: Saved) -> tuple[list[Edit], list[SyncRecord]]:
    """The edits that undo what was saved, and the records as they were then, which these edits were made for.

    Saving them keeps what was changed since, and names it. Raises ClientError if it belongs to another account, or can't be decrypted.
    """
    if saved.key_id != client.account.key_id:
        raise ClientError("Cannot undo this: it was saved for another account, or before a password reset")
    try:
        keys_of = collection_keys(client.keys_of("crypto"), saved.keys.id, saved.keys.payload)
    except (UnreadableRecord, ValueError) as error:
        message = "Cannot undo this: the sync key does not decrypt what was saved"
        raise ClientError(message, field="sync_key") from error
    before = [_open(keys_of, saved.collection, record) for record in saved.before]
    after = [_open(keys_of, saved.collection, record) for record in saved.after]
    model = model_of(saved.collection)
    touched = {record.stored.id for record in after}
    # The others are what the undone bookmarks must fit into.
    now = model.load(client.collection(saved.collection), [RemoveEdit(each) for each in touched])
    others = [_without_later(record, saved.as_of_ms) for each, record in now.items() if each not in touched]
    shown = [*others, *after]
    return model.back(model.read(shown), model.read([*others, *before])), shown


def _without_later(record: SyncRecord, as_of_ms: int) -> SyncRecord:
    """What was written later may have got its address, its tags and its keyword since: they are not what was shown then."""
    if record.stored.last_modified <= as_of_ms or record.clear is None or not isinstance(record.clear.get("bmkUri"), str):
        return record
    return replace(record, clear={**record.clear, "bmkUri": "", "tags": [], "keyword": ""})


def _open(keys_of: Callable[[str], KeyPair], collection: str, saved: SavedRecord) -> SyncRecord:
    try:
        clear = decrypt_record(keys_of(collection), saved.id, saved.payload)
    except UnreadableRecord:
        clear = None
    return SyncRecord(collection, StoredRecord(saved.id, 0, saved.payload), clear, None)
