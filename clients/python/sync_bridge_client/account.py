"""The values needed to read an account's data. docs/connect.md of Sync Bridge says where to get them."""

import base64
import dataclasses
import os
import re
import uuid
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from .errors import AccountField, ClientError


@dataclass
class Account:
    """An account and its bridge."""

    # The URL of the bridge, such as `http://127.0.0.1:8000`; may end in `/v1`.
    bridge_url: str = ""
    # An access token for Sync.
    token: str = field(default="", repr=False)
    # Identifies the key that encrypts the data.
    key_id: str = ""
    # The second half of the key id, as 32 hexadecimal digits; if empty, it is derived from the key id.
    bucket: str = ""
    # 128 hexadecimal digits; empty for a client that does not decrypt.
    sync_key: str = field(default="", repr=False)
    # Used to get new access tokens; empty if the token can't be renewed.
    refresh_token: str = field(default="", repr=False)
    # The URL that exchanges the refresh token for an access token.
    token_endpoint: str = ""
    # The OAuth client id that the refresh token was issued to.
    client_id: str = ""
    # The token server, needed to start a bridge.
    token_server_url: str = ""
    # The sync keys from before password resets, as `KEY_ID:SYNC_KEY` joined by commas.
    former_keys: str = field(default="", repr=False)
    # The account's file, to which new access tokens are written.
    file: Path | None = None


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
    "FORMER_KEYS": "former_keys",
}


def parse_account(text: str) -> Account:
    """Finds the `NAME=value` lines that the Firefox recipe prints, in any text; `export`, quotes and comments are allowed."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"""^[ \t]*#.*|\b([A-Z_]+)=((?:["']?Bearer )?[^\s&]+)""", text, re.M):
        if name in _NAMES:
            found[_NAMES[name]] = _without_quotes(value)
    return Account(**found)  # type: ignore[arg-type]  # mypy can't infer which fields are strings


def format_account(account: Account) -> str:
    """Formats an account as the lines that parse_account reads, without empty values.

    Quoted, because a shell may source them. Raises ClientError for a value that quotes can't hold.
    """
    values = {name: getattr(account, attribute) for name, attribute in _NAMES.items()}
    return "".join(f"{name}={_quoted(name, value)}\n" for name, value in values.items() if value)


def _quoted(name: str, value: str) -> str:
    if re.fullmatch("[!-&(-~]+", value):
        return f"'{value}'"
    raise ClientError(f"{name} contains a quote, a space or another character that no value has")


def read_account_file(path: str | os.PathLike[str] | None = None, *, bridge_url: str | None = None) -> Account:
    """Reads the account file of `sync-bridge connect`; new access tokens are written to the same file.

    The file is `path`, else SYNC_BRIDGE_ACCOUNT, else sync-bridge/account.env in XDG_CONFIG_HOME or ~/.config. `bridge_url`
    replaces the bridge that the file names. Raises ClientError if the file can't be read, or the variable BRIDGE_URL names another bridge,
    left over from another account, which would get the token.
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
    left_over = os.environ.get("BRIDGE_URL")
    if bridge_url is None and left_over and _bridge_of(left_over) != _bridge_of(account.bridge_url):
        other = re.sub("^.*@", "********@", left_over)
        own = f"uses {account.bridge_url}" if account.bridge_url else "names no bridge"
        remedy = f'Unset BRIDGE_URL, or pass bridge_url="{other}"'
        raise ClientError(f'BRIDGE_URL in the environment is {other}, but the account "{file}" {own}. {remedy}')
    account.bridge_url = bridge_url or account.bridge_url
    return account


def _bridge_of(url: str) -> str:
    return re.sub("/?(v1)?/?$", "", url)


def keep_token(account: Account) -> None:
    """Writes the account's token into its file; other lines stay unchanged.

    Warns on failure: the next run will renew the token again.
    """
    if account.file is None:
        return
    try:
        file = account.file.resolve()
        text = file.read_bytes().decode()
        # The file may contain another account by now.
        if parse_account(text).refresh_token != account.refresh_token:
            return
        # A file may begin with a byte order mark.
        lines = r"^(\ufeff?[ \t]*(?:export[ \t]+)?BEARER_TOKEN=)[^\r\n]*"
        text = re.sub(lines, rf"\g<1>'{account.token}'", text, flags=re.M)
        # Under the name of the commands' drafts, which remove it if this process is killed.
        draft = file.parent / f".sync-bridge-{uuid.uuid4()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
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
    """Validates an account, and cleans up values that were copied with surrounding characters.

    Raises ClientError with the name of the invalid field. The bucket is optional; so is the sync key, if nothing is decrypted.
    """
    cleaned = {name: _without_quotes(getattr(given, name) or "") for name in _NAMES.values()}
    account = dataclasses.replace(given, **cleaned)  # type: ignore[arg-type]  # all of these are strings
    account.token = _read_token(account.token)
    state = re.fullmatch(r"\d+-([\w-]{22})={0,2}", account.key_id, re.ASCII)
    if state is None:
        shape = "a number, a hyphen and 22 characters, like 1700000000000-AbCdEfGhIjKlMnOpQrStUv"
        raise _wrong("key_id", f"The key id must be {shape}.")
    bucket = _hex_of_base64(state[1])
    if account.bucket.lower() not in ("", bucket):
        advice = "Leave it empty if the key id is right: the bucket is derived from it."
        raise _wrong("bucket", f"This bucket belongs to another account than the key id. {advice}")
    account.bucket = bucket
    if account.bridge_url == "":
        raise _wrong("bridge_url", "The address of the bridge is missing: pass bridge_url, or add a line BRIDGE_URL=... to the account file.")
    if not _is_web_address(account.bridge_url):
        form = "https:// or http://, without a user, password or query"
        # Not with the address, which may contain a password.
        raise _wrong("bridge_url", f"The address of the bridge must begin with {form}.")
    account.sync_key = "" if account.sync_key == "" else _read_key(account.sync_key)
    return account


def _is_web_address(url: str) -> bool:
    try:
        return re.fullmatch("https?://[^@?#]+", url, re.I) is not None and bool(urlsplit(url).hostname)
    except ValueError:
        return False


def _wrong(name: AccountField, message: str) -> ClientError:
    return ClientError(message, field=name)


def _read_token(text: str) -> str:
    """Validates an access token for use in a header."""
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
    """Removes surrounding quotes, which are often copied along."""
    return re.sub("^[\"'“”„‘’`]|[\"'“”„‘’`]$", "", text.strip())


def _hex_of_base64(base64url: str) -> str:
    return base64.urlsafe_b64decode(base64url.replace("+", "-").replace("/", "_") + "==").hex()
