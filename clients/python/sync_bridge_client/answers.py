"""Reads what a bridge answers. Another server may answer anything: what does not have the documented form is a ClientError."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from .errors import ClientError
from .fields import fields_of, is_integer, text_of

# The end of what JavaScript's `Date` can represent.
_LATEST_MS = 8_640_000_000_000_000


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as the bridge returns it; `last_modified` is in ms since 1970."""

    id: str
    last_modified: int
    payload: str | None = None
    sortindex: int | None = None


@dataclass(frozen=True)
class CollectionInfo:
    """A collection and its timestamp, `last_modified`, in ms since 1970."""

    name: str
    last_modified: int


@dataclass(frozen=True)
class BridgeInfo:
    """What the root view says about the bridge; `max_requests`: maximum requests in a transaction."""

    version: str
    max_requests: int


@dataclass(frozen=True)
class TransactionResponse:
    """The response to one request of a transaction."""

    status: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


def unexpected(what: str = "") -> ClientError:
    """The error for an answer that is not one of a bridge."""
    return ClientError(f"The bridge sent an unexpected response: {f'it has {what}' if what else 'is this its address?'}")


def stored_records(body: object) -> list[StoredRecord]:
    """Reads the records of a list."""
    data = fields_of(body).get("data")
    if not isinstance(data, list):
        raise unexpected("no list of records")
    return [_stored_record(each) for each in data]


def stored_record(body: object) -> StoredRecord:
    """Reads a single record."""
    return _stored_record(fields_of(body).get("data"))


def _stored_record(value: object) -> StoredRecord:
    if not _is_stored_record(value):
        raise unexpected("a record without id or timestamp")
    fields = fields_of(value)
    return StoredRecord(fields["id"], fields["last_modified"], fields.get("payload"), fields.get("sortindex"))


def _is_stored_record(value: object) -> bool:
    fields = fields_of(value)
    return (
        isinstance(fields.get("id"), str)
        and _is_timestamp(fields.get("last_modified"))
        and isinstance(fields.get("payload", ""), str)
        and is_integer(fields.get("sortindex", 0))
    )


def _is_timestamp(value: object) -> bool:
    return is_integer(value) and 0 <= value <= _LATEST_MS


def collection_infos(body: object, headers: Mapping[str, str]) -> list[CollectionInfo]:
    """Reads the collections of an account."""
    infos = [CollectionInfo(record.id, record.last_modified) for record in stored_records(body)]
    require_all(headers, len(infos))
    return infos


def total_of(headers: Mapping[str, str]) -> int:
    """Reads the number of records."""
    total = headers.get("Total-Records", "")
    if not re.fullmatch("[0-9]{1,15}", total):
        raise unexpected("no number of records")
    return int(total)


def require_all(headers: Mapping[str, str], count: int) -> None:
    """Raises `ClientError` if a list has fewer records than its headers say."""
    if "Total-Records" in headers and count < total_of(headers):
        raise unexpected("fewer records than it says")


def timestamp_of(headers: Mapping[str, str]) -> int:
    """Reads the ETag, which has a number of ms; proxies that compress add `W/` or `-gzip`. 0 if a proxy removed it."""
    digits = re.search("[0-9]+", headers.get("ETag", ""))
    if digits is None:
        return 0
    if len(digits[0]) > 16 or not _is_timestamp(int(digits[0])):
        raise unexpected("no valid ETag")
    return int(digits[0])


def next_query(headers: Mapping[str, str]) -> str | None:
    """Reads the query of the next page, or None at the end.

    The rest of the URL is not used, so the token is sent only to this bridge.
    """
    address = headers.get("Next-Page")
    if address is None:
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query == "":
        raise unexpected("a Next-Page that is not an address")
    return f"?{parts.query}"


def bridge_info(body: object) -> BridgeInfo:
    """Reads the root view."""
    fields = fields_of(body)
    most = fields_of(fields.get("settings")).get("batch_max_requests")
    return BridgeInfo(text_of(fields.get("project_version")), most if is_integer(most) and most > 0 else 25)


@dataclass(frozen=True)
class Requested:
    """What the response to one request of a transaction must fit; `path` is without the version of the protocol."""

    method: str
    path: str
    id: str


# The statuses of a request that succeeded.
_SUCCESSES = {"GET": (200, 304), "PUT": (200,), "DELETE": (200, 204)}


def transaction_responses(body: object, requested: Sequence[Requested]) -> list[TransactionResponse] | None:
    """Reads the responses of a transaction; None unless there is one for each of its requests, in the same order."""
    responses = fields_of(body).get("responses")
    if not isinstance(responses, list) or len(responses) != len(requested):
        return None
    if not all(map(_is_response_to, responses, requested)):
        return None
    return [TransactionResponse(each["status"], each["path"], each["headers"], each["body"]) for each in responses]


def _is_response_to(value: object, requested: Requested) -> bool:
    if not _is_response(value):
        return False
    fields = fields_of(value)
    if re.sub("^/v[0-9]+", "", fields["path"]) != requested.path:
        return False
    # A transaction with a request that failed with 5xx fails as a whole.
    if 400 <= fields["status"] < 500:
        return True
    data = fields["body"].get("data")
    return fields["status"] in _SUCCESSES[requested.method] and (data is None or data["id"] == requested.id)


def _is_response(value: object) -> bool:
    fields = fields_of(value)
    status, path, headers, body = (fields.get(name) for name in ("status", "path", "headers", "body"))
    if not is_integer(status) or not isinstance(path, str) or not isinstance(headers, dict) or not isinstance(body, dict):
        return False
    return (
        all(isinstance(text, str) for text in headers.values())
        and (_is_stored_record(body.get("data")) if "data" in body or status == 200 else True)
        and isinstance(body.get("message", ""), str)
    )
