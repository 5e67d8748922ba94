"""Sends requests to a bridge, with kinto-http."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional

import requests
from kinto_http.exceptions import KintoException
from kinto_http.session import Session

from .account import Account, keep_token
from .errors import ClientError
from .fields import text_of
from .tokens import is_renewable, renew_token

# The message if the response to a write is lost.
LOST_ANSWER = "No response: the write may have been applied. Check before you repeat it."
_UNEXPECTED = "The bridge sent an unexpected response: is this its address?"
# Longer pauses are reported as an error.
_LONGEST_PAUSE_SECONDS = 60
# Longer than the service takes to respond.
_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class ClientOptions:
    """How a client sends requests, and what it reports."""

    # Maximum retries of a request that gets 503 or 429 with a pause of up to a minute.
    max_pauses: int = 3
    # Called before each pause, with its length in seconds and the status; 200 for a `Backoff` that `changes` respects.
    on_pause: Optional[Callable[[float, int], None]] = None
    # Called with a renewed access token, which is also written to the account's file.
    on_new_token: Optional[Callable[[str], None]] = None
    # Replaces `time.sleep`.
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Answer:
    """A successful response; `body` is None for HEAD."""

    body: Any
    headers: Mapping[str, str]

    def data(self) -> List[Any]:
        """The list of the response. Raises ClientError if it is none."""
        data = self.body.get("data")
        if not isinstance(data, list):
            raise ClientError(_UNEXPECTED)
        return data


class Requests:
    """Sends the requests of one account: renews the access token, waits when asked to, and turns error responses into ClientError."""

    def __init__(self, account: Account, options: ClientOptions) -> None:
        """Renewing the token changes `account`."""
        self._account = account
        self._options = options
        address = account.bridge_url.rstrip("/")
        server_url = address if address.endswith("/v1") else f"{address}/v1"
        self._session = _Session(server_url=server_url, auth=self._identify, timeout=_TIMEOUT_SECONDS)

    def ask(self, path: str, method: str = "get", body: Optional[Dict[str, Any]] = None) -> Answer:
        """Sends a request for a path below the version, such as `/batch`; an empty path is the root view. Raises ClientError."""
        pauses = 0
        has_renewed = False
        while True:
            try:
                return self._send(path, method, body)
            except KintoException as error:
                refusal = error.response
            if refusal.status_code == 401 and not has_renewed and is_renewable(self._account):
                has_renewed = True
                self._renew()
                continue
            # A bridge returns neither 502 nor 504; a proxy does if it loses the response.
            if body and refusal.status_code in (502, 504):
                raise ClientError(LOST_ANSWER)
            seconds = _pause_of(refusal)
            if pauses == self._options.max_pauses or seconds is None:
                raise _refused(refusal)
            pauses += 1
            has_renewed = False
            if self._options.on_pause is not None:
                self._options.on_pause(seconds, refusal.status_code)
            self._options.sleep(seconds)

    def rest(self, seconds: float) -> None:
        """Waits for that many seconds, or longer if the bridge has asked for it with `Backoff`."""
        backoff_seconds = self._session.backoff_until - time.time()
        if backoff_seconds > seconds and self._options.on_pause is not None:
            self._options.on_pause(math.ceil(backoff_seconds), 200)
        self._options.sleep(max(seconds, backoff_seconds))

    def _identify(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._account.token}"
        request.headers["X-KeyID"] = self._account.key_id
        return request

    def _renew(self) -> None:
        self._account.token = renew_token(self._account)
        keep_token(self._account)
        if self._options.on_new_token is not None:
            self._options.on_new_token(self._account.token)

    def _send(self, path: str, method: str, body: Optional[Dict[str, Any]]) -> Answer:
        try:
            # A redirect could send the credentials to another server.
            content, headers = self._session.request(method, path or "/", payload=body, allow_redirects=False)
        except requests.exceptions.JSONDecodeError as error:
            raise ClientError(LOST_ANSWER if body else _UNEXPECTED) from error
        except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError) as error:
            broken = "The response was cut off: the storage or the connection failed."
            raise ClientError(LOST_ANSWER if body else broken) from error
        except (OSError, ValueError) as error:
            silent = f"No response from the bridge at {self._account.bridge_url}. Is it running?"
            raise ClientError(LOST_ANSWER if body else silent) from error
        # A redirect of a HEAD looks like a success.
        if not ("Total-Records" in headers if method == "head" else _is_answer(content)):
            raise ClientError(LOST_ANSWER if body else _UNEXPECTED)
        return Answer(content, headers)


class _Session(Session):  # type: ignore[misc]  # kinto-http has no types
    """Sends requests even during a `Backoff`, which `changes` respects between rounds.

    Otherwise it would reject the rest of a started read, and the requests of other threads.
    """

    backoff_until = 0.0

    @property
    def backoff(self) -> Optional[float]:
        return None

    @backoff.setter
    def backoff(self, until: Optional[float]) -> None:
        self.backoff_until = max(self.backoff_until, until or 0)


def _is_answer(content: Any) -> bool:
    # Every success of a bridge has one of these; other servers also return JSON.
    names = ("data", "responses", "settings")
    return isinstance(content, dict) and any(isinstance(content.get(name), (dict, list)) for name in names)


def _pause_of(refusal: requests.Response) -> Optional[float]:
    """How many seconds the response asks to wait; None if it does not, or too long."""
    if refusal.status_code not in (503, 429):
        return None
    try:
        seconds = float(refusal.headers.get("Retry-After", 1))
    except ValueError:
        return None
    return seconds if 0 <= seconds <= _LONGEST_PAUSE_SECONDS else None


def _refused(refusal: requests.Response) -> ClientError:
    status = refusal.status_code
    try:
        body = refusal.json()
    except ValueError:
        body = None
    if isinstance(body, dict):
        message, errno = text_of(body.get("message")) or f"The bridge returned {status}.", body.get("errno")
    elif refusal.request.method == "HEAD":
        # It has no body.
        message, errno = f"The bridge returned {status}.", None
    else:
        message, errno = (
            f"A proxy or another server returned {status}: is this the address of the bridge?",
            None,
        )
    seconds = refusal.headers.get("Retry-After", "")
    if seconds.isdigit() and int(seconds) > 0:
        message = f"{message} (in {seconds} s)"
    if status != 401:
        return ClientError(message, status=status, errno=errno)
    # errno 104: the credentials are missing or contradictory, and a new token would not help.
    return ClientError(message, status=status, errno=errno, field="key_id" if errno == 104 else "token")
