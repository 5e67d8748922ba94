"""Watches an account for changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict, FrozenSet, Iterator, List, Optional, Tuple

from .collection import SyncRecord
from .errors import ClientError

if TYPE_CHECKING:
    from .sync_client import SyncClient


def watch(
    client: SyncClient,
    since: Optional[int],
    every_seconds: float,
    wanted: Optional[FrozenSet[str]],
    excluded: FrozenSet[str],
    on_error: Optional[Callable[[ClientError], None]],
) -> Iterator[SyncRecord]:
    # The last change of each collection that was reported.
    known: Optional[Dict[str, int]] = None
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


def _read(client: SyncClient, name: str, since: int) -> Tuple[List[SyncRecord], int]:
    found: List[SyncRecord] = []
    newest = 0
    for page in client.collection(name).pages(since):
        found += page.records
        newest = page.last_modified
    return found, newest
