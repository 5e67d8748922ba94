"""A bridge, asked for one account."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, Iterator, List, Literal, Mapping, Optional
from urllib.parse import quote

from .account import Account, check_account
from .changes import watch
from .collection import Collection, CollectionInfo, SyncRecord, data_of
from .crypto import ClearRecord, KeyPair, UnreadableRecord, collection_keys, encrypt_record, key_pair_from_hex
from .errors import ClientError
from .transport import LOST_ANSWER, ClientOptions, Requests


@dataclass(frozen=True)
class TransactionRequest:
    """A request of a transaction; `data` has the fields to write: `payload`, `sortindex`, `ttl`."""

    method: Literal["GET", "PUT", "DELETE"]
    collection: str
    id: str
    headers: Mapping[str, str] = field(default_factory=dict)
    data: Optional[Mapping[str, Any]] = None


@dataclass(frozen=True)
class TransactionResponse:
    """What the bridge answers to a request of a transaction."""

    status: int
    path: str
    headers: Dict[str, str]
    body: Dict[str, Any]


@dataclass(frozen=True)
class BridgeInfo:
    """What the bridge says of itself; `max_requests` is how many requests a transaction may have."""

    version: str
    max_requests: int


class SyncClient:
    """A bridge, asked for one account. Everything here raises ClientError."""

    def __init__(self, account: Account, options: Optional[ClientOptions] = None) -> None:
        self.account = check_account(account)
        self.requests = Requests(self.account, options or ClientOptions())
        self._keys: Optional[Callable[[str], KeyPair]] = None

    def collections(self) -> List[CollectionInfo]:
        """The account's collections, by their names."""
        data = data_of(self.requests.ask(self._path("/collections")).body)
        return sorted((CollectionInfo(each["id"], each["last_modified"]) for each in data), key=lambda info: info.name)

    def collection(self, name: str) -> Collection:
        """A collection, which need not exist."""
        path = self._path(f"/collections/{quote(name, safe='')}/records")
        return Collection(name, self.requests, path, self.keys_of)

    def keys_of(self, collection: str) -> KeyPair:
        """The keys of a collection; the first call fetches those of the account. Those of `crypto` are the sync key.

        Raises ClientError when the sync key does not open them, or there are none yet.
        """
        if collection == "crypto":
            return self._sync_key_pair()
        if self._keys is None:
            self._keys = self._read_keys()
        return self._keys(collection)

    def forget_keys(self) -> None:
        """Fetches the keys again before they are used next: a client that was reset has made new ones."""
        self._keys = None

    def encrypt(self, collection: str, clear: ClearRecord) -> str:
        """The payload to write for a clear record."""
        return encrypt_record(self.keys_of(collection), clear)

    def changes(
        self,
        since: Optional[int] = None,
        every_seconds: float = 60,
        collections: Optional[Iterable[str]] = None,
        exclude: Iterable[str] = (),
        on_error: Optional[Callable[[ClientError], None]] = None,
    ) -> Iterator[SyncRecord]:
        """The records that change, decrypted, oldest first within a collection, without an end.

        Begins with what has changed after `since`, in ms since 1970, or with what changes from now on. Watches all collections but `crypto`,
        `meta` and those of `exclude`, or only `collections`. Asks for the list of collections, and lists only those that have changed. Records that are
        deleted without a trace are not reported; Firefox leaves one. Raises ClientError when the first round fails or the account is
        refused; of other rounds that fail `on_error` gets the reason, and the next round makes them good.
        """
        wanted = None if collections is None else frozenset(collections)
        return watch(self, since, every_seconds, wanted, frozenset(exclude) | {"crypto", "meta"}, on_error)

    def transaction(self, requests: Iterable[TransactionRequest]) -> List[TransactionResponse]:
        """Carries out requests as one transaction: what is written becomes visible at once, or not at all.

        A request that is refused by itself (a condition that is not met, a write that is not allowed) has its own status and leaves the
        others.
        """
        below: List[Dict[str, Any]] = []
        for request in requests:
            path = self._path(f"/collections/{request.collection}/records/{quote(request.id, safe='')}")
            each: Dict[str, Any] = {"method": request.method, "path": path}
            if request.headers:
                each["headers"] = dict(request.headers)
            if request.data is not None:
                each["body"] = {"data": dict(request.data)}
            below.append(each)
        answers = self.requests.ask("/batch", "post", {"requests": below}).body.get("responses", [])
        if len(answers) != len(below):
            raise ClientError(LOST_ANSWER)
        return [TransactionResponse(each["status"], each["path"], each["headers"], each["body"]) for each in answers]

    def info(self) -> BridgeInfo:
        """What the bridge says of itself."""
        body = self.requests.ask("").body
        return BridgeInfo(str(body.get("project_version")), (body.get("settings") or {}).get("batch_max_requests") or 25)

    def _sync_key_pair(self) -> KeyPair:
        if self.account.sync_key == "":
            raise ClientError("The sync key is missing: nothing can be decrypted.", field="sync_key")
        return key_pair_from_hex(self.account.sync_key)

    def _read_keys(self) -> Callable[[str], KeyPair]:
        sync_key_pair = self._sync_key_pair()
        try:
            record = self.requests.ask(self._path("/collections/crypto/records/keys")).body["data"]
        except ClientError as error:
            if error.status != 404:
                raise
            message = "This account has no keys in its storage: has a Firefox of it synced yet?"
            raise ClientError(message, status=404) from None
        try:
            return collection_keys(sync_key_pair, record["id"], record.get("payload"))
        except UnreadableRecord as error:
            message = "This sync key does not open the account: it belongs to another one, or is an old one."
            raise ClientError(message, field="sync_key") from error
        except ValueError as error:
            raise ClientError(str(error), field="sync_key") from error

    def _path(self, path: str) -> str:
        return f"/buckets/{self.account.bucket}{path}"


def connect(
    account: Account,
    *,
    max_pauses: int = 3,
    on_pause: Optional[Callable[[float, int], None]] = None,
    on_new_token: Optional[Callable[[str], None]] = None,
    sleep: Callable[[float], None] = time.sleep,
) -> SyncClient:
    """Opens an account: checks its values, and that its key opens its data. Raises ClientError.

    `max_pauses`: how often a request that is asked to wait (503 or 429 with a pause of up to a minute) is repeated. `on_pause`: is called
    before each such pause, with its length in seconds and the status, which is 200 where `changes` keeps a longer one than its own. `on_new_token`: is called with a new access token, which is also
    written to the file that the account came from. `sleep`: what waits.
    """
    client = SyncClient(account, ClientOptions(max_pauses, on_pause, on_new_token, sleep))
    client.keys_of("bookmarks")
    return client
