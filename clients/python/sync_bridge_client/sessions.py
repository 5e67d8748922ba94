"""Connections to the bridge and the account server."""

import os
import re
from urllib.parse import urlsplit

import requests

_THIS_MACHINE = re.compile(r"localhost|.+\.localhost|127(\.\d+){3}|::1")


def open_session(url: str, ca: str | None = None) -> requests.Session:
    """Connections to the server of this address.

    They take nothing from the environment, such as a password in a .netrc file, but the proxy of HTTPS_PROXY for https, unless NO_PROXY
    excepts the server, or it is this machine. `ca`: a PEM file with the only certificates to trust.
    """
    session = requests.Session()
    session.trust_env = False
    proxy = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    if proxy and url.startswith("https:") and not _is_excepted(_host_of(url)):
        session.proxies = {"https": proxy}
    if ca is not None:
        session.verify = ca
    return session


def is_clear_text(url: str) -> bool:
    """Whether others on the way can read requests to this address: no TLS, and not this machine."""
    return not url.lower().startswith("https://") and not _THIS_MACHINE.fullmatch(_host_of(url))


def _host_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _is_excepted(host: str) -> bool:
    names = (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").lower().split(",")
    excepted = [name.strip().lstrip(".") for name in names if name.strip()]
    is_named = any(name == "*" or host == name or host.endswith(f".{name}") for name in excepted)
    return is_named or _THIS_MACHINE.fullmatch(host) is not None
