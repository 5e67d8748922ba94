"""Access tokens from the account server."""

import re
import time
from typing import Any
from urllib.parse import urlsplit

import requests

from .account import Account
from .errors import ClientError
from .fields import text_of
from .crypto import read_json
from .sessions import is_clear_text, open_session

_SCOPE = "https://identity.mozilla.com/apps/oldsync"
_NEW_VALUES = "get new values from Firefox with the recipe"
# A response has a few hundred characters, and takes less than a second.
_TIMEOUT_SECONDS = 20
_MAX_ANSWER_BYTES = 65_536


def is_renewable(account: Account) -> bool:
    """Whether an account can renew its access token."""
    return bool(account.refresh_token and account.token_endpoint and account.client_id)


def renew_token(account: Account, ca: str | None = None) -> str:
    """Gets a new access token, valid for an hour. `ca`: a PEM file with the only certificates to trust.

    Raises ClientError; if the refresh token is no longer valid, it says what to do.
    """
    failure = "Cannot renew the access token"
    wanted = {
        "grant_type": "refresh_token",
        "client_id": account.client_id,
        "refresh_token": account.refresh_token,
        "scope": _SCOPE,
        "ttl": 3600,
    }
    status, body = _post(account.token_endpoint, wanted, failure, ca)
    token = (body or {}).get("access_token")
    # The token is written to a file that shells read.
    if status == 200 and isinstance(token, str) and re.fullmatch(r"[\w.~+/=-]+", token, re.ASCII):
        return token
    # The account server and its OAuth service use different error numbers.
    if (status, (body or {}).get("errno")) in [(401, 110), (400, 108)]:
        raise ClientError(f"The refresh token was revoked, or the password was changed: {_NEW_VALUES}", field="token")
    raise _refused(failure, status, body)


def revoke_refresh_token(account: Account, ca: str | None = None) -> None:
    """Revokes the refresh token. Raises ClientError; an already invalid token counts as revoked."""
    failure = "Cannot revoke the refresh token"
    url = re.sub("/token$", "/destroy", account.token_endpoint)
    status, body = _post(url, {"client_id": account.client_id, "token": account.refresh_token}, failure, ca)
    is_unknown = status in (400, 401) and (body or {}).get("errno") in (108, 110)
    if not 200 <= status < 300 and not is_unknown:
        raise _refused(failure, status, body)


def _post(url: str, content: dict[str, Any], failure: str, ca: str | None) -> tuple[int, dict[str, Any] | None]:
    if is_clear_text(url):
        raise ClientError(f"{failure}: TOKEN_ENDPOINT must begin with https://, unless it is on this machine")
    try:
        # A redirect could send the refresh token to another server.
        options: dict[str, Any] = {"allow_redirects": False, "timeout": _TIMEOUT_SECONDS, "stream": True}
        with open_session(url, ca) as session, session.post(url, json=content, **options) as answer:
            text = _text_of(answer)
    except (OSError, ValueError) as error:
        raise ClientError(f"{failure}: no response from {urlsplit(url).netloc or url}") from error
    try:
        body = read_json(text)
    except (ValueError, RecursionError):
        body = None
    return answer.status_code, body if isinstance(body, dict) else None


def _text_of(answer: requests.Response) -> str:
    """The body. Raises OSError if it does not end within the deadline, or is too large for what these servers send."""
    ends_at = time.monotonic() + _TIMEOUT_SECONDS
    received = bytearray()
    # One by one, because a larger chunk would wait for all of its bytes.
    for byte in answer.iter_content(1):
        received += byte
        if len(received) > _MAX_ANSWER_BYTES or time.monotonic() > ends_at:
            raise OSError("The response is too large, or too slow")
    return received.decode("utf-8", "replace")


def _refused(failure: str, status: int, body: dict[str, Any] | None) -> ClientError:
    # Mozilla's bot protection, which only browsers can pass.
    if status == 406 and body is None:
        what = "the account server requires a check that only browsers pass (406)"
        return ClientError(f"{failure}: {what}. Try again later or from another network, or {_NEW_VALUES}", status=status)
    message = text_of((body or {}).get("message"))
    return ClientError(f"{failure}: the account server returned {status} {message}".rstrip(), status=status)
