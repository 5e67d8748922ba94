"""What Firefox does to records before they leave a device. The key never leaves the program.

A record's payload is JSON of `ciphertext`, `IV` (both base64) and `hmac` (hex): AES-256-CBC, with an HMAC-SHA-256 over the base64
text of the ciphertext. The user's sync key opens one record, `crypto/keys`; the keys in there open all others.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, NoReturn, Optional, Tuple

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from .fields import quoted

# A record as Firefox means it: `id`, `deleted`, and what else belongs to its collection.
ClearRecord = Dict[str, Any]

_NOT_ENCRYPTED = "It is not encrypted like Firefox does it"
_OTHER_KEY = "It was encrypted with another key, or tampered with"


@dataclass(frozen=True)
class KeyPair:
    encryption: bytes = field(repr=False)
    authentication: bytes = field(repr=False)


class UnreadableRecord(Exception):
    """Why a record can't be decrypted: `reason` is a sentence without the record's id."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(f"Cannot decrypt {quoted(id)}: {reason[0].lower()}{reason[1:]}")
        self.reason = reason


def key_pair_from_hex(text: str) -> KeyPair:
    """A pair of keys from 64 bytes, encryption key first: the sync key as 128 hexadecimal digits. Raises ValueError if it is none."""
    if not re.fullmatch("[0-9a-fA-F]{128}", text):
        raise ValueError("The sync key must be 128 hexadecimal digits")
    key = bytes.fromhex(text)
    return KeyPair(key[:32], key[32:])


def collection_keys(sync_key_pair: KeyPair, id: str, payload: Optional[str]) -> Callable[[str], KeyPair]:
    """The keys of all collections, out of the record `keys` of the collection `crypto`: a function from a collection's name to its pair.

    Raises UnreadableRecord when the record can't be decrypted, and ValueError when it holds no keys.
    """
    content = decrypt_record(sync_key_pair, id, payload)
    common = _pair_of(content.get("default"))
    if common is None:
        raise ValueError('Cannot use "keys": it contains no keys. Has a Firefox of this account synced yet?')
    collections = content.get("collections")
    own = {name: _pair_of(texts) for name, texts in collections.items()} if isinstance(collections, dict) else {}
    return lambda collection: own.get(collection) or common


def _pair_of(texts: object) -> Optional[KeyPair]:
    if not isinstance(texts, list) or len(texts) < 2 or not all(isinstance(text, str) for text in texts[:2]):
        return None
    try:
        pair = KeyPair(*(_from_base64(text) for text in texts[:2]))
    except ValueError:
        return None
    return pair if len(pair.encryption) == 32 else None


def decrypt_record(key_pair: KeyPair, id: str, payload: Optional[str]) -> ClearRecord:
    """The clear record.

    Raises UnreadableRecord when it was encrypted with another key, changed by somebody who does not have the key, or belongs to
    another id.
    """
    ciphertext, iv, mac = _read_payload(id, payload)
    expected = hmac.new(key_pair.authentication, ciphertext, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), mac):
        raise UnreadableRecord(id, _OTHER_KEY)
    # The IV is not part of what the key vouches for.
    try:
        decryptor = Cipher(algorithms.AES(key_pair.encryption), modes.CBC(_from_base64(iv))).decryptor()
        unpadder = padding.PKCS7(128).unpadder()
        padded = decryptor.update(_from_base64(ciphertext.decode())) + decryptor.finalize()
        clear = unpadder.update(padded) + unpadder.finalize()
        content = read_json(clear.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(id, _NOT_ENCRYPTED) from error
    if not isinstance(content, (dict, list)):
        raise UnreadableRecord(id, "Its content is not a record")
    if isinstance(content, list) or content.get("id") != id:
        raise UnreadableRecord(id, "Its content belongs to another id")
    return content


def _read_payload(id: str, payload: Optional[str]) -> Tuple[bytes, str, bytes]:
    try:
        sealed = read_json(payload or "")
        parts = [sealed["ciphertext"], sealed["IV"], sealed["hmac"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnreadableRecord(id, _NOT_ENCRYPTED) from error
    if not all(isinstance(part, str) for part in parts):
        raise UnreadableRecord(id, _NOT_ENCRYPTED)
    # What is not ASCII has no code of its own, and is no digit.
    return parts[0].encode("utf-8", "replace"), parts[1], parts[2].lower().encode("ascii", "replace")


def decrypt_records(
    key_pair: KeyPair, records: Iterable[Tuple[str, Optional[str]]]
) -> Tuple[List[ClearRecord], List[Tuple[str, str]]]:
    """Decrypts many records, given as id and payload: those that can be read, and the ids of the others, each with the reason.

    Records that a key does not open are in real accounts, and Firefox skips them.
    """
    readable: List[ClearRecord] = []
    unreadable: List[Tuple[str, str]] = []
    for id, payload in records:
        try:
            readable.append(decrypt_record(key_pair, id, payload))
        except UnreadableRecord as error:
            unreadable.append((id, error.reason))
    return readable, unreadable


def encrypt_record(key_pair: KeyPair, clear: ClearRecord) -> str:
    """The payload to write for a clear record. To delete a record for all devices encrypt {"id": ..., "deleted": True}."""
    iv = os.urandom(16)
    padder = padding.PKCS7(128).padder()
    # Half a surrogate pair is in titles that were cut: JSON can escape it, UTF-8 can't hold it.
    text = json.dumps(clear, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    padded = padder.update(text) + padder.finalize()
    encryptor = Cipher(algorithms.AES(key_pair.encryption), modes.CBC(iv)).encryptor()
    ciphertext = base64.b64encode(encryptor.update(padded) + encryptor.finalize())
    mac = hmac.new(key_pair.authentication, ciphertext, hashlib.sha256).hexdigest()
    return json.dumps({"ciphertext": ciphertext.decode(), "IV": base64.b64encode(iv).decode(), "hmac": mac})


def read_json(text: str) -> Any:
    """JSON without the constants that only Python takes for it. Raises ValueError, and RecursionError."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
