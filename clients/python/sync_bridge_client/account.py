"""The values that reading an account's data takes. docs/connect.md of Sync Bridge says where to get them."""

from __future__ import annotations

import base64
import dataclasses
import os
import re
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Optional, Union
from urllib.parse import urlsplit

from .errors import AccountField, ClientError


@dataclass
class Account:
    """An account behind a bridge."""

    # Where the bridge is, such as `http://127.0.0.1:8000`; a final `/v1` may be left out.
    bridge_url: str = ""
    # An access token for Sync.
    token: str = field(default="", repr=False)
    # Names the key that the data is encrypted with.
    key_id: str = ""
    # The second half of the key id as 32 hexadecimal digits; it follows from the key id where it is empty.
    bucket: str = ""
    # 128 hexadecimal digits; empty for a client that does not decrypt.
    sync_key: str = field(default="", repr=False)
    # Gets new access tokens; empty for an account whose token is not renewed.
    refresh_token: str = field(default="", repr=False)
    # Where the refresh token is used.
    token_endpoint: str = ""
    # As which program it is used.
    client_id: str = ""
    # The token server, for those who start a bridge.
    token_server_url: str = ""
    # The file that the account came from, which new access tokens are written to.
    file: Optional[Path] = None


_NAMES = {
    "BRIDGE_URL": "bridge_url",
    "BEARER_TOKEN": "token",
    "KEY_ID": "key_id",
    "BUCKET": "bucket",
    "SYNC_KEY": "sync_key",
    "REFRESH_TOKEN": "refresh_token",
    "TOKEN_ENDPOINT": "token_endpoint",
    "CLIENT_ID": "client_id",
    "TOKEN_SERVER_URL": "token_server_url",
}


def parse_account(text: str) -> Account:
    """Reads lines `NAME=value`, as Firefox prints them with the recipe, among any others; `export` and quotes may be around them."""
    found: Dict[str, str] = {}
    for name, value in re.findall(r"""\b([A-Z_]+)=((?:["']?Bearer )?[^\s&]+)""", text):
        if name in _NAMES:
            found[_NAMES[name]] = _without_quotes(value)
    return Account(**found)  # type: ignore[arg-type]  # mypy can't tell which fields are texts


def format_account(account: Account) -> str:
    """The lines that parse_account reads, without values that are empty."""
    values = {name: getattr(account, attribute) for name, attribute in _NAMES.items()}
    return "".join(f"{name}={value}\n" for name, value in values.items() if value)


def read_account_file(path: Union[str, "os.PathLike[str]", None] = None) -> Account:
    """The account that `sync-bridge connect` has kept; new access tokens are written to the same file.

    The file is `path`, else the one that SYNC_BRIDGE_ACCOUNT names, else sync-bridge/account.env in XDG_CONFIG_HOME or ~/.config. The
    variable BRIDGE_URL says where the bridge is, else the file does. Raises ClientError when the file can't be read.
    """
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    file = Path(path or os.environ.get("SYNC_BRIDGE_ACCOUNT") or Path(config) / "sync-bridge/account.env")
    try:
        account = parse_account(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ClientError(f'There is no account file "{file}": run "sync-bridge connect"') from None
    except (OSError, ValueError) as error:
        raise ClientError(f'Cannot read the account file "{file}": {error}') from error
    account.file = file
    account.bridge_url = os.environ.get("BRIDGE_URL") or account.bridge_url
    return account


def keep_token(account: Account) -> None:
    """Writes the account's token into the file that the account came from. Its other lines stay as they are.

    Warns when it can't: the next run will need another token.
    """
    if account.file is None:
        return
    try:
        file = account.file.resolve()
        text = file.read_bytes().decode()
        # Somebody may have put another account's values there meanwhile.
        if parse_account(text).refresh_token != account.refresh_token:
            return
        text = re.sub(r"^((?:export )?BEARER_TOKEN=)[^\r\n]*", rf"\g<1>{account.token}", text, count=1, flags=re.M)
        # Made with mode 0600, under a name that nobody else has.
        descriptor, draft = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.")
        try:
            with open(descriptor, "wb") as opened:
                opened.write(text.encode())
                opened.flush()
                os.fsync(opened.fileno())
            os.replace(draft, file)
        except BaseException:
            os.unlink(draft)
            raise
    except (OSError, ValueError) as error:
        message = f'The new access token is not in "{account.file}", the next run will need another: {error}'
        warnings.warn(message, RuntimeWarning, stacklevel=2)


def check_account(given: Account) -> Account:
    """A copy of the account, without what comes along when values are copied.

    Raises ClientError, which names the field, when it can't be used. The bucket may be left out, and the sync key by those who don't
    decrypt.
    """
    cleaned = {name: _without_quotes(getattr(given, name)) for name in _NAMES.values()}
    account = dataclasses.replace(given, **cleaned)  # type: ignore[arg-type]  # all of these are texts
    account.token = _read_token(account.token)
    state = re.fullmatch(r"\d+-([\w-]{22})={0,2}", account.key_id, re.ASCII)
    if state is None:
        shape = "a number, a hyphen and 22 characters, like 1700000000000-AbCdEfGhIjKlMnOpQrStUv"
        raise _wrong("key_id", f"The key id must be {shape}.")
    bucket = _hex_of_base64(state[1])
    if account.bucket.lower() not in ("", bucket):
        advice = "Leave it empty if the key id is right: the bucket follows from it."
        raise _wrong("bucket", f"This bucket belongs to another account than the key id. {advice}")
    account.bucket = bucket
    if account.bridge_url == "":
        raise _wrong("bridge_url", "The address of the bridge is missing: set BRIDGE_URL, or bridge_url of the account.")
    if not _is_web_address(account.bridge_url):
        raise _wrong("bridge_url", f"The address of the bridge must begin with https:// or http://: {account.bridge_url}")
    account.sync_key = "" if account.sync_key == "" else _read_key(account.sync_key)
    return account


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _wrong(name: AccountField, message: str) -> ClientError:
    return ClientError(message, field=name)


def _read_token(text: str) -> str:
    """An access token as headers can carry it."""
    token = re.sub(r"^bearer(\s+|$)", "", text, flags=re.I)
    if token == "":
        raise _wrong("token", "The access token is missing.")
    strange = re.search("[^!-~]", token)
    if strange is None:
        return token
    what = "a space" if strange[0].isspace() else f"“{strange[0]}”"
    raise _wrong("token", f"This access token contains {what}, which is invalid: copy it again.")


def _read_key(text: str) -> str:
    if re.fullmatch("[0-9a-fA-F]{128}", text):
        return text
    if re.fullmatch(r"[\w+/-]{86}={0,2}", text, re.ASCII):
        return _hex_of_base64(text.rstrip("="))
    forms = "128 hexadecimal digits, or 86 characters of base64url"
    raise _wrong("sync_key", f"The sync key must be {forms}.")


def _without_quotes(text: str) -> str:
    """Values are often copied together with the quotes around them."""
    return re.sub("^[\"'“”„‘’`]|[\"'“”„‘’`]$", "", text.strip())


def _hex_of_base64(base64url: str) -> str:
    return base64.urlsafe_b64decode(base64url.replace("+", "-").replace("/", "_") + "==").hex()
