"""Connections to the bridge and the account server."""

import requests


def open_session() -> requests.Session:
    """Connections that take nothing from the environment: no proxy, which would see the token, and no password from a .netrc file."""
    session = requests.Session()
    session.trust_env = False
    return session
