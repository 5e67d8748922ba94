"""Watches an account for changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict, FrozenSet, Iterator, List, Optional

from .collection import SyncRecord
from .errors import ClientError

if TYPE_CHECKING:
    from .sync_client import SyncClient


def watch(
    client: SyncClient,
    since: Optional[int],
    every_seconds: float,
    wanted: Optional[FrozenSet[str]],
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
                if _is_watched(info.name, wanted):
                    # A collection with an older timestamp was wiped and filled again.
                    start = 0 if info.last_modified < last else last
                    found: List[SyncRecord] = []
                    newest = info.last_modified
                    for page in client.collection(info.name).pages(start):
                        found += page.records
                        newest = max(newest, page.last_modified)
                    known[info.name] = newest
                    yield from sorted(found, key=lambda record: record.stored.last_modified)
                else:
                    known[info.name] = info.last_modified
        except ClientError as error:
            if error.field is not None or known is None or on_error is None:
                raise
            on_error(error)
        client.requests.wait(max(every_seconds, client.requests.backoff_seconds()))


def _is_watched(name: str, wanted: Optional[FrozenSet[str]]) -> bool:
    return name not in ("crypto", "meta") if wanted is None else name in wanted
