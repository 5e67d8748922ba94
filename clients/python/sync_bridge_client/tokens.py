"""Access tokens from the account server."""

import re
from typing import Any
from urllib.parse import urlsplit

from .account import Account
from .errors import ClientError
from .fields import text_of
from .sessions import open_session

_SCOPE = "https://identity.mozilla.com/apps/oldsync"
_NEW_VALUES = "get new values from Firefox with the recipe"
_TIMEOUT_SECONDS = 60


def is_renewable(account: Account) -> bool:
    """Whether an account can renew its access token."""
    return bool(account.refresh_token and account.token_endpoint and account.client_id)


def renew_token(account: Account) -> str:
    """Gets a new access token, valid for an hour. Raises ClientError; if the refresh token is no longer valid, it says what to do."""
    failure = "Cannot renew the access token"
    wanted = {
        "grant_type": "refresh_token",
        "client_id": account.client_id,
        "refresh_token": account.refresh_token,
        "scope": _SCOPE,
        "ttl": 3600,
    }
    status, body = _post(account.token_endpoint, wanted, failure)
    token = (body or {}).get("access_token")
    # The token is written to a file that shells read.
    if status == 200 and isinstance(token, str) and re.fullmatch(r"[\w.~+/=-]+", token, re.ASCII):
        return token
    # The account server and its OAuth service use different error numbers.
    if (status, (body or {}).get("errno")) in [(401, 110), (400, 108)]:
        raise ClientError(f"The refresh token was revoked, or the password was changed: {_NEW_VALUES}", field="token")
    raise _refused(failure, status, body)


def revoke_refresh_token(account: Account) -> None:
    """Revokes the refresh token. Raises ClientError; an already invalid token counts as revoked."""
    failure = "Cannot revoke the refresh token"
    url = re.sub("/token$", "/destroy", account.token_endpoint)
    status, body = _post(url, {"client_id": account.client_id, "token": account.refresh_token}, failure)
    is_unknown = status in (400, 401) and (body or {}).get("errno") in (108, 110)
    if not 200 <= status < 300 and not is_unknown:
        raise _refused(failure, status, body)


def _post(url: str, content: dict[str, Any], failure: str) -> tuple[int, dict[str, Any] | None]:
    try:
        with open_session() as session:
            # A redirect could send the refresh token to another server.
            answer = session.post(url, json=content, allow_redirects=False, timeout=_TIMEOUT_SECONDS)
    except (OSError, ValueError) as error:
        raise ClientError(f"{failure}: no response from {urlsplit(url).netloc or url}") from error
    try:
        body = answer.json()
    except (ValueError, RecursionError):
        body = None
    return answer.status_code, body if isinstance(body, dict) else None


def _refused(failure: str, status: int, body: dict[str, Any] | None) -> ClientError:
    # Mozilla's bot protection, which only browsers can pass.
    if status == 406 and body is None:
        what = "the account server requires a check that only browsers pass (406)"
        return ClientError(f"{failure}: {what}. Try again later or from another network, or {_NEW_VALUES}", status=status)
    message = text_of((body or {}).get("message"))
    return ClientError(f"{failure}: the account server returned {status} {message}".rstrip(), status=status)
