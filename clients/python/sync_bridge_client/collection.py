"""Reads the collections of an account."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

from .answers import StoredRecord, next_query, require_all, stored_records, timestamp_of, total_of, unexpected
from .crypto import ClearRecord, KeyPair, UnreadableRecord, decrypt_record, parse_content
from .errors import ClientError
from .fields import names_of
from .transport import Requests

Item = TypeVar("Item")


@dataclass(frozen=True)
class SyncRecord:
    """A record, stored and decrypted.

    `clear` is None if the key can't decrypt it, and `problem` says why, as a sentence. A deletion is {"id": ..., "deleted": True}.
    """

    collection: str
    stored: StoredRecord
    clear: ClearRecord | None
    problem: str | None


def is_readable(record: SyncRecord) -> bool:
    """Whether a record could be decrypted and is not a deletion."""
    return record.clear is not None and record.clear.get("deleted") is not True


@dataclass(frozen=True)
class Page(Generic[Item]):
    """One page of a collection.

    `last_modified` is the collection's timestamp when the first page was read, in ms since 1970. Pass it as `since` next time.
    """

    records: list[Item]
    last_modified: int


@dataclass(frozen=True)
class Count:
    total: int
    last_modified: int


class Collection:
    """A collection; it need not exist. All methods raise ClientError.

    `since`: only records changed after this time, in ms since 1970. `page_size`: records per request, by default all.
    `ids`: only records with these ids; up to 400.
    """

    def __init__(
        self,
        name: str,
        requests: Requests,
        path: str,
        keys_of: Callable[[str], KeyPair],
        forget_keys: Callable[[], None],
    ) -> None:
        self.name = name
        self._requests = requests
        self._path = path
        self._keys_of = keys_of
        self._forget_keys = forget_keys

    def count(self) -> Count:
        """The number of records, and the last change."""
        headers = self._requests.ask(self._path, "HEAD").headers
        return Count(total_of(headers), timestamp_of(headers))

    def records(
        self, since: int | None = None, page_size: int | None = None, ids: Iterable[str] | None = None
    ) -> Iterator[SyncRecord]:
        """Yields decrypted records. With a page size, records may be yielded twice."""
        for page in self.pages(since, page_size, ids):
            yield from page.records

    def pages(
        self, since: int | None = None, page_size: int | None = None, ids: Iterable[str] | None = None
    ) -> Iterator[Page[SyncRecord]]:
        """The same, page by page."""
        # The only collection that is not encrypted.
        keys = None if self.name == "meta" else self._keys_of(self.name)
        is_current = False
        for page in self.stored_pages(since, page_size, ids):
            records = [self._open(keys, stored) for stored in page.records]
            if keys and not is_current and any(record.clear is None for record in records):
                # A client that was reset has created new keys.
                self._forget_keys()
                keys, is_current = self._keys_of(self.name), True
                records = [self._open(keys, each.stored) if each.clear is None else each for each in records]
            yield Page(records, page.last_modified)

    def stored_pages(
        self, since: int | None = None, page_size: int | None = None, ids: Iterable[str] | None = None
    ) -> Iterator[Page[StoredRecord]]:
        """Yields stored records, page by page, or in parts as they arrive."""
        asked = [] if page_size is None else [f"_limit={page_size}"]
        if since is not None:
            asked.append(f"_since=%22{since}%22")
        if ids is not None:
            asked.append(f"in_ids={quote(','.join(names_of(ids)), safe='')}")
        first = "?" + "&".join(asked)
        while True:
            query: str | None = first
            moments: list[int] = []
            received = 0
            refusal: ClientError | None = None
            while query is not None:
                try:
                    headers, parts = self._ask(query, is_streamed=page_size is None)
                except ClientError as error:
                    # The position of a page is no longer valid once its list has changed.
                    if not moments or error.status != 400:
                        raise
                    refusal = error
                    break
                moments.append(timestamp_of(headers))
                for records in parts:
                    received += len(records)
                    yield Page(records, moments[0])
                following = next_query(headers)
                # Of a page, other servers say how many all pages have.
                if following is None and page_size is None:
                    require_all(headers, received)
                if following == query:
                    raise unexpected("the same page again")
                query = following
            if len(moments) == 1 and refusal is None:
                return
            # If others have changed or deleted a record between two pages, the pages miss another one, so everything is read again.
            if moments[0] == 0:
                raise ClientError("The response has no ETag: does a proxy remove it?")
            if self.count().last_modified != moments[0]:
                continue
            if refusal is not None:
                raise refusal
            return

    def _ask(self, query: str, is_streamed: bool) -> tuple[Mapping[str, str], Iterable[list[StoredRecord]]]:
        if is_streamed:
            return self._requests.stream(self._path + query)
        answer = self._requests.ask(self._path + query)
        return answer.headers, [stored_records(answer.body)]

    def _open(self, keys: KeyPair | None, stored: StoredRecord) -> SyncRecord:
        try:
            clear = _parse_meta(stored) if keys is None else decrypt_record(keys, stored.id, stored.payload)
            return SyncRecord(self.name, stored, clear, None)
        except UnreadableRecord as error:
            return SyncRecord(self.name, stored, None, error.reason)


def _parse_meta(stored: StoredRecord) -> ClearRecord:
    return {**parse_content(stored.id, stored.payload or "", "It is not JSON"), "id": stored.id}
