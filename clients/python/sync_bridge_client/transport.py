"""Sends requests to a bridge."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import requests

from .account import Account, keep_token
from .answers import StoredRecord, unexpected
from .crypto import read_json
from .errors import ClientError
from .fields import fields_of, is_integer, text_of
from .record_list import parse_records
from .sessions import open_session
from .tokens import is_renewable, renew_token

# Longer pauses are reported as an error.
_LONGEST_PAUSE_SECONDS = 60
# `time.sleep` rejects much longer ones.
_LONGEST_REST_SECONDS = 2_000_000
# Longer than the service takes to respond.
_TIMEOUT_SECONDS = 120
_CHUNK_BYTES = 65_536


@dataclass(frozen=True)
class ClientOptions:
    """How a client sends requests, and what it reports."""

    # Maximum retries of a request that gets 503 or 429 with a pause of up to a minute.
    max_pauses: int = 3
    # Called before each pause, with its length in seconds and the status; 200 for a `Backoff` that `changes` respects.
    on_pause: Callable[[float, int], None] | None = None
    # Called with a renewed access token, which is also written to the account's file.
    on_new_token: Callable[[str], None] | None = None
    # Replaces `time.sleep`.
    sleep: Callable[[float], None] = time.sleep
    # A PEM file with the only certificates to trust.
    ca: str | None = None


@dataclass(frozen=True)
class Answer:
    """A successful response; `body` is None for HEAD, and is read by the functions of `answers`."""

    body: object
    headers: Mapping[str, str]


@dataclass(frozen=True)
class _Request:
    """The path is below the version, such as `/batch`; an empty one is the root view."""

    path: str
    method: str = "GET"
    body: dict[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    is_streamed: bool = False


class Requests:
    """Sends the requests of one account: renews the access token, waits when asked to, and turns error responses into ClientError."""

    def __init__(self, account: Account, options: ClientOptions) -> None:
        """Renewing the token changes `account`."""
        self._account = account
        self._options = options
        address = account.bridge_url.rstrip("/")
        self._api = address if address.endswith("/v1") else f"{address}/v1"
        self._session = open_session(self._api, options.ca)
        # When the pause ends that the bridge has asked for with `Backoff`, in seconds since 1970.
        self._backoff_until = 0.0

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends a request for a path below the version, such as `/batch`; an empty path is the root view. Raises ClientError."""
        response = self._send(_Request(path, method, body, headers))
        if method == "HEAD":
            if response.status_code >= 300:
                raise unexpected()
            return Answer(None, response.headers)
        try:
            content = read_json(response.content.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            raise (unknown_outcome() if body else unexpected()) from error
        # Every success of a bridge has a list, a record, or settings; other servers also return JSON, and redirects.
        parts = [fields_of(content).get(name) for name in ("data", "responses", "settings")]
        if response.status_code >= 300 or not any(isinstance(part, dict | list) for part in parts):
            raise unknown_outcome() if body else unexpected()
        return Answer(content, response.headers)

    def stream(self, path: str) -> tuple[Mapping[str, str], Iterator[list[StoredRecord]]]:
        """Requests a list of records, which are parsed as they arrive. Raises ClientError, as does the iterator."""
        response = self._send(_Request(path, is_streamed=True))
        if response.status_code >= 300:
            response.close()
            raise unexpected()
        return response.headers, _records_of(response)

    def rest(self, seconds: float) -> None:
        """Waits for that many seconds, or longer if the bridge has asked for it with `Backoff`."""
        backoff_seconds = self._backoff_until - time.time()
        if backoff_seconds > seconds and self._options.on_pause is not None:
            self._options.on_pause(math.ceil(backoff_seconds), 200)
        self._options.sleep(min(max(seconds, backoff_seconds), _LONGEST_REST_SECONDS))

    def _send(self, request: _Request) -> requests.Response:
        """Sends a request, again after a pause or with a new token; the response has no error status."""
        pauses = 0
        has_renewed = False
        while True:
            response = self._send_once(request)
            if response.status_code < 400:
                return response
            with response:
                if response.status_code == 401 and not has_renewed and is_renewable(self._account):
                    has_renewed = True
                    self._renew()
                    continue
                # A bridge returns neither 502 nor 504; a proxy does if it loses the response.
                if request.body and response.status_code in (502, 504):
                    raise unknown_outcome()
                seconds = _pause_of(response)
                if pauses == self._options.max_pauses or seconds is None:
                    raise _refused(response)
            pauses += 1
            has_renewed = False
            if self._options.on_pause is not None:
                self._options.on_pause(seconds, response.status_code)
            self._options.sleep(seconds)

    def _send_once(self, request: _Request) -> requests.Response:
        credentials = {"Authorization": f"Bearer {self._account.token}", "X-KeyID": self._account.key_id}
        try:
            response = self._session.request(
                request.method,
                self._api + (request.path or "/"),
                json=request.body,
                headers={**credentials, **(request.headers or {})},
                # A redirect could send the credentials to another server.
                allow_redirects=False,
                timeout=_TIMEOUT_SECONDS,
                stream=request.is_streamed,
            )
        except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError) as error:
            raise (unknown_outcome() if request.body else _broken_off()) from error
        except (OSError, ValueError) as error:
            silent = f"No response from the bridge at {self._account.bridge_url}. Is it running?"
            raise (unknown_outcome() if request.body else ClientError(silent)) from error
        backoff_seconds = _seconds_of(response.headers.get("Backoff", ""))
        if backoff_seconds > 0:
            self._backoff_until = max(self._backoff_until, time.time() + backoff_seconds)
        return response

    def _renew(self) -> None:
        self._account.token = renew_token(self._account, self._options.ca)
        keep_token(self._account)
        if self._options.on_new_token is not None:
            self._options.on_new_token(self._account.token)


def _records_of(response: requests.Response) -> Iterator[list[StoredRecord]]:
    with response:
        yield from parse_records(_chunks_of(response), _broken_off)


def _chunks_of(response: requests.Response) -> Iterator[bytes]:
    try:
        yield from response.iter_content(_CHUNK_BYTES)
    except (OSError, ValueError) as error:
        raise _broken_off() from error


def _seconds_of(text: str) -> float:
    """A number of seconds; NaN for any other text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _pause_of(response: requests.Response) -> float | None:
    """How many seconds the response asks to wait; None if it does not, or too long."""
    if response.status_code not in (503, 429):
        return None
    seconds = _seconds_of(response.headers.get("Retry-After", "1"))
    return seconds if 0 <= seconds <= _LONGEST_PAUSE_SECONDS else None


def _broken_off() -> ClientError:
    return ClientError("The response broke off: the storage or the connection failed.")


def unknown_outcome() -> ClientError:
    """The response to a write is lost."""
    message = "No response: the write may have been applied. Check before you repeat it."
    return ClientError(message, may_be_applied=True)


def _refused(response: requests.Response) -> ClientError:
    status = response.status_code
    try:
        body = read_json(response.content.decode("utf-8", "replace"))
    except (ValueError, RecursionError, OSError):
        body = None
    errno = fields_of(body).get("errno")
    message = text_of(fields_of(body).get("message"))
    if message == "":
        is_bridge = isinstance(body, dict) or response.request.method == "HEAD"
        other = f"A proxy or another server returned {status}: is this the address of the bridge?"
        message = f"The bridge returned {status}." if is_bridge else other
    seconds = response.headers.get("Retry-After", "")
    if _seconds_of(seconds) > 0:
        message = f"{message.removesuffix('.').removesuffix(': try again later')}. Try again in {seconds} s"
    return ClientError(
        message,
        status=status,
        errno=errno if is_integer(errno) else None,
        # errno 104: the credentials are missing or contradictory, and a new token would not help.
        field=None if status != 401 else "key_id" if errno == 104 else "token",
    )
