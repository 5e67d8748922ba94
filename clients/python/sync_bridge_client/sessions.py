"""Connections to the bridge and the account server."""

import os
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Timer
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

_THIS_MACHINE = re.compile(r"localhost|.+\.localhost|127(\.\d+){3}|::1")


def open_session(url: str, ca: str | None = None) -> requests.Session:
    """Connections to the server of this address.

    They take nothing from the environment, such as a password in a .netrc file, but the proxy of HTTPS_PROXY for https, unless NO_PROXY
    excepts the server, or it is this machine. `ca`: a PEM file with the only certificates to trust. The timeout of a request ends when its
    response has begun, with all its headers.
    """
    session = requests.Session()
    session.trust_env = False
    for scheme in ("https://", "http://"):
        session.mount(scheme, _Adapter())
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


def _read_head(connection: HTTPConnection, read: Callable[[], Any]) -> Any:
    """Reads the headers of a response within the timeout, which a socket counts anew for each byte."""
    is_late = Event()

    def end() -> None:
        is_late.set()
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = Timer(connection.timeout or 0, end)
    timer.daemon = True
    timer.start()
    try:
        response = read()
    finally:
        timer.cancel()
    # A head that breaks off looks complete.
    if is_late.is_set():
        raise TimeoutError("The response did not begin in time")
    return response


class _Connection(HTTPConnection):
    def getresponse(self) -> Any:
        return _read_head(self, super().getresponse)


class _SecureConnection(HTTPSConnection):
    def getresponse(self) -> Any:
        return _read_head(self, super().getresponse)


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
        return manager
