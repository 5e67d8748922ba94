"""A collection of an account, read from the bridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Generic, Iterator, List, Mapping, Optional, TypeVar
from urllib.parse import urlsplit

from .crypto import ClearRecord, KeyPair, UnreadableRecord, decrypt_record, read_json
from .errors import ClientError
from .transport import Requests

Item = TypeVar("Item")


@dataclass(frozen=True)
class CollectionInfo:
    """A collection of an account; `last_modified` is in ms since 1970."""

    name: str
    last_modified: int


@dataclass(frozen=True)
class StoredRecord:
    """A record as the bridge sends it; `last_modified` is in ms since 1970."""

    id: str
    last_modified: int
    payload: Optional[str] = None
    sortindex: Optional[int] = None


@dataclass(frozen=True)
class SyncRecord:
    """A record with its meaning.

    `clear` is None where the key does not open it, and `problem` says why then, as a sentence. A deletion is a record, too:
    {"id": ..., "deleted": True}.
    """

    collection: str
    stored: StoredRecord
    clear: Optional[ClearRecord]
    problem: Optional[str]


def is_readable(record: SyncRecord) -> bool:
    """Whether a record could be decrypted and is no deletion."""
    return record.clear is not None and record.clear.get("deleted") is not True


@dataclass(frozen=True)
class Page(Generic[Item]):
    """A part of a collection.

    `last_modified` is when the collection had changed last when its first page was read, in ms since 1970: `since` for the next time.
    """

    records: List[Item]
    last_modified: int


@dataclass(frozen=True)
class Count:
    total: int
    last_modified: int


class Collection:
    """A collection, which need not exist. Everything here raises ClientError.

    `since`: only what has changed after this moment, in ms since 1970. `page_size`: how many records are asked for at once.
    """

    def __init__(self, name: str, requests: Requests, path: str, keys_of: Callable[[str], KeyPair]) -> None:
        self.name = name
        self._requests = requests
        self._path = path
        self._keys_of = keys_of

    def count(self) -> Count:
        """How many records it has, and when it has changed last."""
        headers = self._requests.ask(self._path, "head").headers
        return Count(int(headers.get("Total-Records", 0)), _moment_of(headers))

    def records(self, since: Optional[int] = None, page_size: int = 1000) -> Iterator[SyncRecord]:
        """The records, decrypted, as they come. A record that changes meanwhile may come again."""
        for page in self.pages(since, page_size):
            yield from page.records

    def pages(self, since: Optional[int] = None, page_size: int = 1000) -> Iterator[Page[SyncRecord]]:
        """The same, page by page."""
        # The one collection that is not encrypted.
        keys = None if self.name == "meta" else self._keys_of(self.name)
        for page in self.stored_pages(since, page_size):
            yield Page([self._open(keys, stored) for stored in page.records], page.last_modified)

    def stored_pages(self, since: Optional[int] = None, page_size: int = 1000) -> Iterator[Page[StoredRecord]]:
        """The records as they are stored, page by page."""

        def limited(moment: Optional[int]) -> str:
            return f"?_limit={page_size}" + ("" if moment is None else f"&_since=%22{moment}%22")

        query = limited(since)
        last_modified = 0
        is_first = True
        while True:
            answer = self._requests.ask(self._path + query)
            next_page = answer.headers.get("Next-Page")
            if is_first:
                last_modified = _moment_of(answer.headers)
            yield Page([_stored_of(each) for each in data_of(answer.body)], last_modified)
            # Of the next page's address only the query: nobody but this bridge gets the token.
            if next_page is not None:
                query = f"?{urlsplit(next_page).query}"
            elif is_first:
                return
            # A record that changes between two pages moves to the front, and is on none of the later ones: what has changed since the
            # first page is asked for at the end.
            else:
                query = limited(last_modified)
            is_first = next_page is None

    def _open(self, keys: Optional[KeyPair], stored: StoredRecord) -> SyncRecord:
        try:
            clear = _parse_meta(stored) if keys is None else decrypt_record(keys, stored.id, stored.payload)
            return SyncRecord(self.name, stored, clear, None)
        except UnreadableRecord as error:
            return SyncRecord(self.name, stored, None, error.reason)


def data_of(body: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The list in an answer. Raises ClientError where there is none."""
    data = body.get("data")
    if isinstance(data, list):
        return data
    raise ClientError("The bridge returned something else than a list: is this its address?")


def _stored_of(each: Dict[str, Any]) -> StoredRecord:
    return StoredRecord(each["id"], each["last_modified"], each.get("payload"), each.get("sortindex"))


def _parse_meta(stored: StoredRecord) -> ClearRecord:
    try:
        content = read_json(stored.payload or "")
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(stored.id, "It is not JSON") from error
    return {"id": stored.id, **(content if isinstance(content, dict) else {})}


def _moment_of(headers: Mapping[str, str]) -> int:
    """The ETag, which is a number of ms in quotes."""
    digits = headers.get("ETag", "").strip('"')
    return int(digits) if digits.isdigit() else 0
