"""Watches an account for changes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from .answers import CollectionInfo
from .collection import Collection, SyncRecord
from .errors import ClientError
from .fields import names_of
from .transport import Requests


class Watched(Protocol):
    """The part of a client that is needed to watch its account."""

    @property
    def requests(self) -> Requests: ...

    def collections(self) -> list[CollectionInfo]: ...

    def collection(self, name: str) -> Collection: ...

    def forget_keys(self) -> None: ...


def changes(
    client: Watched,
    since: int | None = None,
    every_seconds: float = 60,
    collections: Iterable[str] | None = None,
    exclude: Iterable[str] = (),
    on_error: Callable[[ClientError], None] | None = None,
) -> Iterator[SyncRecord]:
    """Yields changed records, decrypted, oldest first within a collection; never ends.

    Starts with the changes after `since`, in ms since 1970; by default, now. Watches the given collections; by default, all except
    `crypto`, `meta` and those of `exclude`. Polls the list of collections, and reads only those that have changed. Doesn't see records
    deleted without a tombstone; Firefox always writes one. Raises ClientError if the first round fails, or if the credentials are
    rejected. If a later round fails, `on_error` gets the reason, and the next round catches up.
    """
    wanted = None if collections is None else frozenset(names_of(collections))
    excluded = frozenset(names_of(exclude)) | {"crypto", "meta"}
    return _watch(client, since, every_seconds, wanted, excluded, on_error)


def _watch(
    client: Watched,
    since: int | None,
    every_seconds: float,
    wanted: frozenset[str] | None,
    excluded: frozenset[str],
    on_error: Callable[[ClientError], None] | None,
) -> Iterator[SyncRecord]:
    # The last change of each collection that was reported.
    known: dict[str, int] | None = None
    while True:
        try:
            current = client.collections()
            # Without `since`, the first round only records the current state.
            if known is None:
                known = {
                    info.name: info.last_modified if since is None else min(since, info.last_modified) for info in current
                }
            # New keys are needed for the records that come with them.
            if any(info.name == "crypto" and info.last_modified != known.get("crypto") for info in current):
                client.forget_keys()
            for info in current:
                last = known.get(info.name, 0)
                if info.last_modified == last:
                    continue
                if info.name in wanted if wanted is not None else info.name not in excluded:
                    # A collection with an older timestamp was wiped and filled again.
                    start = 0 if info.last_modified < last else last
                    found, newest = _read(client, info.name, start)
                    known[info.name] = max(newest, info.last_modified)
                    yield from sorted(found, key=lambda record: record.stored.last_modified)
                else:
                    known[info.name] = info.last_modified
        except ClientError as error:
            if error.field is not None or known is None or on_error is None:
                raise
            on_error(error)
        client.requests.rest(every_seconds)


def _read(client: Watched, name: str, since: int) -> tuple[list[SyncRecord], int]:
    found: list[SyncRecord] = []
    newest = 0
    for page in client.collection(name).pages(since):
        found += page.records
        newest = page.last_modified
    return found, newest
