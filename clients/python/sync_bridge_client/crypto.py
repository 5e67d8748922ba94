"""Encrypts and decrypts records like Firefox. The key never leaves the program.

A record's payload is JSON with `ciphertext`, `IV` (both base64) and `hmac` (hex): AES-256-CBC, with an HMAC-SHA-256 over the base64 text of
the ciphertext. The user's sync key decrypts one record, `crypto/keys`, whose keys decrypt all others.
"""

import base64
import hashlib
import hmac
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from .fields import quoted

# A decrypted record: `id`, `deleted`, and the fields of its collection.
ClearRecord = dict[str, Any]

_NOT_ENCRYPTED = "It is not encrypted in the format of Firefox"
# Firefox nests records five levels deep. Programs end, instead of reporting an error, when they process thousands.
_DEEPEST_NESTING = 100
_TOO_DEEP = f"Its content is nested more than {_DEEPEST_NESTING} levels deep"
_OTHER_KEY = "It was encrypted with another key, or tampered with"


@dataclass(frozen=True)
class KeyPair:
    encryption: bytes = field(repr=False)
    authentication: bytes = field(repr=False)


class UnreadableRecord(Exception):
    """Why a record can't be decrypted: `reason` is a sentence without the record's id."""

    def __init__(self, record_id: str, reason: str) -> None:
        super().__init__(f"Cannot decrypt {quoted(record_id)}: {reason[0].lower()}{reason[1:]}")
        self.reason = reason


def key_pair_from_hex(text: str) -> KeyPair:
    """Imports a sync key: 128 hexadecimal digits, encryption key first. Raises ValueError if it is invalid."""
    if not re.fullmatch("[0-9a-fA-F]{128}", text):
        raise ValueError("The sync key must be 128 hexadecimal digits")
    key = bytes.fromhex(text)
    return KeyPair(key[:32], key[32:])


def collection_keys(sync_key_pair: KeyPair, record_id: str, payload: str | None) -> Callable[[str], KeyPair]:
    """Decrypts the record `crypto/keys`; returns a function from a collection's name to its keys.

    Raises UnreadableRecord if the record can't be decrypted, and ValueError if it contains no keys.
    """
    content = decrypt_record(sync_key_pair, record_id, payload)
    common = _pair_of(content.get("default"))
    if common is None:
        raise ValueError('Cannot use "keys": it contains no keys. Has a Firefox of this account synced yet?')
    collections = content.get("collections")
    own = {name: _pair_of(texts) for name, texts in collections.items()} if isinstance(collections, dict) else {}
    return lambda collection: own.get(collection) or common


def _pair_of(texts: object) -> KeyPair | None:
    if not isinstance(texts, list) or len(texts) < 2 or not all(isinstance(text, str) for text in texts[:2]):
        return None
    try:
        pair = KeyPair(*(_from_base64(text) for text in texts[:2]))
    except ValueError:
        return None
    return pair if len(pair.encryption) == 32 else None


def decrypt_record(key_pair: KeyPair, record_id: str, payload: str | None) -> ClearRecord:
    """Decrypts a record.

    Raises UnreadableRecord if it was encrypted with another key, tampered with, or belongs to another id.
    """
    ciphertext, iv, mac = _read_payload(record_id, payload)
    expected = hmac.new(key_pair.authentication, ciphertext, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), mac):
        raise UnreadableRecord(record_id, _OTHER_KEY)
    # The HMAC does not cover the IV.
    try:
        decryptor = Cipher(algorithms.AES(key_pair.encryption), modes.CBC(_from_base64(iv))).decryptor()
        unpadder = padding.PKCS7(128).unpadder()
        padded = decryptor.update(_from_base64(ciphertext.decode())) + decryptor.finalize()
        clear = unpadder.update(padded) + unpadder.finalize()
        text = clear.decode("utf-8-sig", "replace")
    except ValueError as error:
        raise UnreadableRecord(record_id, _NOT_ENCRYPTED) from error
    content = parse_content(record_id, text, _NOT_ENCRYPTED)
    # Firefox's engines in Rust, such as those of phones, write deletions without an id.
    if content.setdefault("id", record_id) != record_id:
        raise UnreadableRecord(record_id, "Its content belongs to another id")
    return content


def parse_content(record_id: str, text: str, not_json: str) -> ClearRecord:
    """Parses the content of a record. Raises UnreadableRecord with the reason `not_json`, or another one, if it is no record."""
    if _is_nested_too_deeply(text):
        raise UnreadableRecord(record_id, _TOO_DEEP)
    try:
        content = read_json(text)
    except ValueError as error:
        raise UnreadableRecord(record_id, not_json) from error
    if not isinstance(content, dict):
        raise UnreadableRecord(record_id, "Its content is not a record")
    return content


def _is_nested_too_deeply(text: str) -> bool:
    if text.count("[") + text.count("{") <= _DEEPEST_NESTING:
        return False
    depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"?|[][{}]', text, re.S):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > _DEEPEST_NESTING:
            return True
    return False


def _read_payload(record_id: str, payload: str | None) -> tuple[bytes, str, bytes]:
    try:
        sealed = read_json(payload or "")
        parts = [sealed["ciphertext"], sealed["IV"], sealed["hmac"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnreadableRecord(record_id, _NOT_ENCRYPTED) from error
    if not all(isinstance(part, str) for part in parts):
        raise UnreadableRecord(record_id, _NOT_ENCRYPTED)
    # Other characters than ASCII are not digits.
    return parts[0].encode("utf-8", "replace"), parts[1], parts[2].lower().encode("ascii", "replace")


def decrypt_records(
    key_pair: KeyPair, records: Iterable[tuple[str, str | None]]
) -> tuple[list[ClearRecord], list[tuple[str, str]]]:
    """Decrypts many records, given as id and payload; returns the readable ones, and the ids of the others with the reasons.

    Real accounts contain records that the key can't decrypt, which Firefox skips.
    """
    readable: list[ClearRecord] = []
    unreadable: list[tuple[str, str]] = []
    for record_id, payload in records:
        try:
            readable.append(decrypt_record(key_pair, record_id, payload))
        except UnreadableRecord as error:
            unreadable.append((record_id, error.reason))
    return readable, unreadable


def encrypt_record(key_pair: KeyPair, clear: ClearRecord) -> str:
    """Encrypts a record; returns the payload to write. To delete a record on all devices, encrypt {"id": ..., "deleted": True}."""
    iv = os.urandom(16)
    padder = padding.PKCS7(128).padder()
    # Truncated titles can contain unpaired surrogates, which JSON can escape but UTF-8 can't encode.
    text = json.dumps(clear, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    padded = padder.update(text) + padder.finalize()
    encryptor = Cipher(algorithms.AES(key_pair.encryption), modes.CBC(iv)).encryptor()
    ciphertext = base64.b64encode(encryptor.update(padded) + encryptor.finalize())
    mac = hmac.new(key_pair.authentication, ciphertext, hashlib.sha256).hexdigest()
    return json.dumps({"ciphertext": ciphertext.decode(), "IV": base64.b64encode(iv).decode(), "hmac": mac})


def read_json(text: str) -> Any:
    """Parses strict JSON, without the constants that only Python accepts. Raises ValueError, and RecursionError."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _from_base64(text: str) -> bytes:
    # Some programs write base64 in lines, which Firefox reads.
    text = "".join(text.split())
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
