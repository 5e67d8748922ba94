"""The addresses of bookmarks, in the form that Firefox stores: https://url.spec.whatwg.org/

Differs in rare cases: accepts some hosts that the standard's Unicode rules forbid, and rejects `0x` as a number of a host.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from typing import Any, Dict, List, Mapping, Optional
from urllib.parse import quote, unquote

from .fields import tags_of, text_of

# The schemes whose URLs have a domain; so has `file`, without a port.
_DEFAULT_PORTS = {"ftp": "21", "http": "80", "https": "443", "ws": "80", "wss": "443"}
# Control characters and spaces, which a URL may begin and end with.
_STRIPPED = "".join(map(chr, range(0x21)))
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
# What to encode, in addition to all that is not printable ASCII. The first `?` and `#` belong to the query and the fragment.
_IN_FRAGMENT = ' "<>`'
_IN_QUERY = ' "<>'
_IN_PATH = _IN_QUERY + "^`{}"
_IN_USER = _IN_PATH + "/:;=@[\\]|"
# A host's soft hyphens, joiners and variation selectors, such as that of an emoji.
_IGNORED = re.compile("[\u00ad\u200b\u2060\ufe00-\ufe0f\ufeff]")
# Encoding a longer one would take seconds; Firefox accepts none.
_LONGEST_LABEL = 1000


def address_of(bookmark: Mapping[str, Any]) -> str:
    """A bookmark's address in the form that Firefox stores; empty if it has none."""
    url = text_of(bookmark.get("bmkUri"))
    return normalized(url) or url


def shared_fields(bookmarks: List[Mapping[str, Any]]) -> Dict[str, Any]:
    """The tags and the keyword of bookmarks with the same `address_of`, from all of them.

    Firefox keeps both for the address: if it receives one of these bookmarks without them, all lose them. It compares tags
    without case: the first spelling remains.
    """
    tags: Dict[str, str] = {}
    for tag in (tag for each in bookmarks for tag in tags_of(each)):
        tags.setdefault(tag.lower(), tag)
    shared: Dict[str, Any] = {"tags": list(tags.values())}
    keywords = [each["keyword"] for each in bookmarks if text_of(each.get("keyword")) != ""]
    return {**shared, "keyword": keywords[0]} if keywords else shared


def normalized(url: str) -> Optional[str]:
    """A URL in the form that Firefox stores; None if it is invalid."""
    text = re.sub("[\t\n\r]", "", url.strip(_STRIPPED))
    match = re.fullmatch(r"([a-z][a-z0-9+.-]*):([^?#]*)(\?[^#]*)?(#.*)?", text, re.A | re.I | re.S)
    if match is None:
        return None
    scheme, path, query, fragment = match[1].lower(), match[2], match[3] or "", match[4] or ""
    is_special = scheme == "file" or scheme in _DEFAULT_PORTS
    if is_special:
        path = path.replace("\\", "/")
    if scheme in _DEFAULT_PORTS:
        path = "//" + path.lstrip("/")
    if scheme == "file":
        # The letter of a Windows drive is no host.
        path = re.sub(r"^/{0,3}([A-Za-z])[:|](?=/|$)", r"///\1:", path)
    authority: Optional[str] = "//" if scheme == "file" else ""
    if path.startswith("//"):
        place, slash, rest = path[2:].partition("/")
        authority, path = _authority(scheme, place), slash + rest
        if authority is None:
            return None
    if is_special or path.startswith("/"):
        path = _without_dots(path)
    unsafe = _IN_PATH if authority or path.startswith("/") else ""
    query = _encoded(query, _IN_QUERY + "'" if is_special else _IN_QUERY)
    return f"{scheme}:{authority}{_encoded(path, unsafe)}{query}{_encoded(fragment, _IN_FRAGMENT)}"


def _authority(scheme: str, place: str) -> Optional[str]:
    """The user, host and port of a URL, after `//`; None if they are invalid."""
    user, at, host_port = place.rpartition("@")
    match = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(:(?:0*([0-9]{1,5}))?)?", host_port, re.S)
    if match is None or int(match[3] or 0) > 65_535 or (scheme == "file" and (at or match[2])):
        return None
    if match[1] == "":
        return None if scheme in _DEFAULT_PORTS or at or match[2] else "//"
    host = _host(match[1], is_domain=scheme == "file" or scheme in _DEFAULT_PORTS)
    if host is None:
        return None
    name, colon, password = user.partition(":")
    login = _encoded(name, _IN_USER) + (":" + _encoded(password, _IN_USER) if password else "")
    port = f":{match[3]}" if match[3] and match[3] != _DEFAULT_PORTS.get(scheme) else ""
    return "//" + (login and f"{login}@") + ("" if scheme == "file" and host == "localhost" else host) + port


def _host(text: str, is_domain: bool) -> Optional[str]:
    try:
        if text.startswith("["):
            address = ipaddress.IPv6Address(text[1:-1])
            return f"[{address.compressed}]" if address.scope_id is None else None
        if not is_domain:
            return None if re.search(r"[\0 <>@[\\\]^|]", text) else _encoded(text, "")
        return _domain(unquote(text))
    except (OSError, ValueError):
        return None


def _domain(text: str) -> Optional[str]:
    """Raises OSError or ValueError if an IPv4 address or a label is invalid."""
    # One by one, because the lower case of a sigma depends on its neighbours.
    lower = "".join(map(str.lower, unicodedata.normalize("NFKC", _IGNORED.sub("", text))))
    clean = unicodedata.normalize("NFKC", lower).replace("\u3002", ".")
    if clean == "" or re.search(r"[\x00-\x20\x7f\ufffd#%/:<>?@[\\\]^|]", clean):
        return None
    labels = [_label(label) for label in clean.split(".")]
    numbered = labels[:-1] if labels[-1] == "" else labels
    # It is an IPv4 address if its last label is a number.
    if re.fullmatch("[0-9]+|0x[0-9a-f]*", numbered[-1]):
        return socket.inet_ntoa(socket.inet_aton(".".join(numbered)))
    return ".".join(labels)


def _label(label: str) -> str:
    # The first letter beyond ASCII that a host may have is U+00A1.
    if label.startswith("xn--") and max(label[4:].encode().decode("punycode"), default="") < "\xa1":
        raise ValueError(label)
    if label.isascii():
        return label
    if len(label) > _LONGEST_LABEL:
        raise ValueError(label)
    return "xn--" + label.encode("punycode").decode()


def _without_dots(path: str) -> str:
    kept: List[str] = []
    dots = ""
    for segment in path.removeprefix("/").split("/"):
        dots = segment.lower().replace("%2e", ".")
        if dots == "..":
            del kept[-1:]
        elif dots != ".":
            kept.append(segment)
    return "/" + "/".join([*kept, ""] if dots in (".", "..") else kept)


def _encoded(text: str, unsafe: str) -> str:
    """Percent-encodes these characters, and those that are not printable ASCII. Decodes nothing, as browsers do."""
    return quote(text, safe=_PRINTABLE.translate(dict.fromkeys(map(ord, unsafe))))
