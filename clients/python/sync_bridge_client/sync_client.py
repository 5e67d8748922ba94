"""A client for one account."""

import time
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

from .account import Account, check_account
from .answers import (
    BridgeInfo,
    CollectionInfo,
    TransactionResponse,
    bridge_info,
    collection_infos,
    stored_record,
)
from .changes import changes
from .collection import Collection, SyncRecord
from .crypto import ClearRecord, KeyPair, UnreadableRecord, collection_keys, encrypt_record, key_pair_from_hex
from .edit.edits import Edit, RemoveEdit
from .edit.save import OnWrite, SaveResult, save, undo
from .edit.saved import Saved
from .edit.tree import Tree, read_tree
from .errors import ClientError
from .fields import names_of
from .transactions import TransactionRequest, send_transaction
from .transport import ClientOptions, Requests


class SyncClient:
    """A client for one account. All methods raise ClientError."""

    def __init__(self, account: Account, options: ClientOptions | None = None) -> None:
        self.account = check_account(account)
        self.requests = Requests(self.account, options or ClientOptions())
        self._keys: Callable[[str], KeyPair] | None = None

    def collections(self) -> list[CollectionInfo]:
        """The account's collections, sorted by name."""
        answer = self.requests.ask(self._path("/collections"))
        return sorted(collection_infos(answer.body, answer.headers), key=lambda info: info.name)

    def collection(self, name: str) -> Collection:
        """A collection; it need not exist."""
        path = self._path(f"/collections/{quote(name, safe='')}/records")
        return Collection(name, self.requests, path, self.keys_of, self.forget_keys)

    def keys_of(self, collection: str) -> KeyPair:
        """The keys of a collection; the first call fetches those of the account. The keys of `crypto` are the sync key.

        Raises ClientError if the sync key is wrong, or the account has no keys yet.
        """
        if collection == "crypto":
            return self._sync_key_pair()
        if self._keys is None:
            self._keys = self._read_keys()
        return self._keys(collection)

    def forget_keys(self) -> None:
        """Fetches the keys again before their next use, because a reset client has created new ones."""
        self._keys = None

    def encrypt(self, collection: str, clear: ClearRecord) -> str:
        """Encrypts a record; returns the payload to write."""
        return encrypt_record(self.keys_of(collection), clear)

    def changes(
        self,
        since: int | None = None,
        every_seconds: float = 60,
        collections: Iterable[str] | None = None,
        exclude: Iterable[str] = (),
        on_error: Callable[[ClientError], None] | None = None,
    ) -> Iterator[SyncRecord]:
        """Yields changed records, as the function `changes` does."""
        return changes(self, since, every_seconds, collections, exclude, on_error)

    def transaction(self, requests: Iterable[TransactionRequest]) -> list[TransactionResponse]:
        """Sends requests as one transaction: all writes become visible at once, or none.

        A request that fails on its own (a failed condition, a write that is not enabled) has its own status and does not affect the others.
        """
        return send_transaction(self.requests, self._path("/collections/"), requests)[0]

    def strict_transaction(self, requests: Iterable[TransactionRequest]) -> tuple[list[TransactionResponse], bool]:
        """The same, but if a request fails on its own, nothing is written. False for a bridge that does not support this."""
        return send_transaction(self.requests, self._path("/collections/"), requests, strict=True)

    def tree(self) -> Tree:
        """Reads all bookmarks as a tree."""
        return read_tree(self.collection("bookmarks").records())

    def edit(
        self,
        edits: Iterable[Edit],
        collection: str = "bookmarks",
        shown: Iterable[SyncRecord] | None = None,
        on_write: OnWrite | None = None,
    ) -> SaveResult:
        """Applies edits to the bookmarks, or to another collection, and writes the result in one transaction.

        What other devices have changed meanwhile stays, and is named in `problems`. `shown`: the records that the edits were made for.
        `on_write`: called before each write, with what undoes everything so far; nothing is written if it raises.
        """
        return save(self, edits, collection, shown, on_write)

    def remove(self, collection: str, ids: Iterable[str], on_write: OnWrite | None = None) -> SaveResult:
        """Deletes records on all devices; a folder of bookmarks with everything in it."""
        return self.edit([RemoveEdit(each) for each in names_of(ids)], collection, on_write=on_write)

    def undo(self, saved: Saved, on_write: OnWrite | None = None) -> SaveResult:
        """Takes back what `edit`, `remove` or `undo` has saved, except for what was changed since."""
        return undo(self, saved, on_write)

    def info(self) -> BridgeInfo:
        """Reads the root view."""
        return bridge_info(self.requests.ask("").body)

    def _sync_key_pair(self) -> KeyPair:
        if self.account.sync_key == "":
            raise ClientError("The sync key is missing: nothing can be decrypted.", field="sync_key")
        return key_pair_from_hex(self.account.sync_key)

    def _read_keys(self) -> Callable[[str], KeyPair]:
        sync_key_pair = self._sync_key_pair()
        try:
            record = stored_record(self.requests.ask(self._path("/collections/crypto/records/keys")).body)
        except ClientError as error:
            # errno 110: the record does not exist. Other servers also return 404.
            if error.errno != 110:
                raise
            message = "This account has no keys yet: has any Firefox synced to it?"
            raise ClientError(message, status=404) from None
        try:
            return collection_keys(sync_key_pair, record.id, record.payload)
        except UnreadableRecord as error:
            message = "This sync key does not decrypt the account: it is outdated, or belongs to another account."
            raise ClientError(message, field="sync_key") from error
        except ValueError as error:
            raise ClientError(str(error), field="sync_key") from error

    def _path(self, path: str) -> str:
        return f"/buckets/{self.account.bucket}{path}"


def connect(
    account: Account,
    *,
    max_pauses: int = 3,
    on_pause: Callable[[float, int], None] | None = None,
    on_new_token: Callable[[str], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    ca: str | None = None,
) -> SyncClient:
    """Creates a client, and checks that the sync key decrypts the account. Raises ClientError.

    `max_pauses`: maximum retries of a request that gets 503 or 429 with a pause of up to a minute. `on_pause`: called before each pause,
    with its length in seconds and the status; 200 for a `Backoff` that `changes` keeps. `on_new_token`: called with a renewed access
    token, which is also written to the account's file. `sleep`: replaces `time.sleep`. `ca`: a PEM file with
    the only certificates to trust, such as those of a proxy.
    """
    client = SyncClient(account, ClientOptions(max_pauses, on_pause, on_new_token, sleep, ca))
    client.keys_of("bookmarks")
    return client
