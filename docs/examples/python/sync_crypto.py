"""What a client of Sync Bridge needs to read the records that it gets, and to write some: sync-crypto.js in Python.

    python3 -m venv sync-python
    sync-python/bin/pip install cryptography==48.0.0

A record's payload is JSON of `ciphertext`, `IV` (both base64) and `hmac` (hex): AES-256-CBC, with an HMAC-SHA-256 over the base64
text of the ciphertext. The user's sync key opens one record, `crypto/keys`; the keys in there open all others.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import re
from typing import NamedTuple

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


class KeyPair(NamedTuple):
    encryption: bytes
    authentication: bytes


class Unreadable(Exception):
    """Why a record cannot be decrypted."""


def key_pair_from_hex(text):
    """A pair of keys from 64 bytes, encryption key first: the sync key as hexadecimal digits."""
    if not re.fullmatch("[0-9a-fA-F]{128}", text):
        raise ValueError("The sync key has to be 128 hexadecimal digits")
    key = bytes.fromhex(text)
    return KeyPair(key[:32], key[32:])


def collection_keys(sync_key_pair, keys_record):
    """A function from a collection's name to its pair of keys, out of the record `keys` of the collection `crypto`."""
    content = decrypt_record(sync_key_pair, keys_record)
    if not isinstance(content.get("default"), list):
        raise Unreadable('Cannot use "keys": it holds no keys. Has a Firefox of this account synced yet?')
    collections = content.get("collections") or {}

    def keys_of(collection):
        pair = collections.get(collection, content["default"])
        return KeyPair(*(base64.b64decode(key) for key in pair))

    return keys_of


def decrypt_record(key_pair, record):
    """The clear record. Raises Unreadable when it was encrypted with another key, is damaged, or belongs to another id."""
    try:
        payload = json.loads(record["payload"])
        text, iv, mac = payload["ciphertext"].encode("ascii"), base64.b64decode(payload["IV"]), payload["hmac"].encode("ascii")
        data = base64.b64decode(text)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Unreadable(f'Cannot decrypt "{record["id"]}": it is not encrypted the way Firefox does it') from error
    expected = hmac.new(key_pair.authentication, text, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), mac):
        raise Unreadable(f'Cannot decrypt "{record["id"]}": it was encrypted with another key')
    # The IV is not part of what the key vouches for.
    try:
        decryptor = Cipher(algorithms.AES(key_pair.encryption), modes.CBC(iv)).decryptor()
        unpadder = padding.PKCS7(128).unpadder()
        padded = decryptor.update(data) + decryptor.finalize()
        clear = json.loads(unpadder.update(padded) + unpadder.finalize())
    except (ValueError, RecursionError) as error:
        raise Unreadable(f'Cannot decrypt "{record["id"]}": its content is damaged') from error
    if not isinstance(clear, dict) or clear.get("id") != record["id"]:
        raise Unreadable(f'Cannot use "{record["id"]}": its content belongs to another id')
    return clear


def decrypt_records(key_pair, records):
    """The clear records, and the ids of those that the key does not open: real accounts have some, and Firefox skips them."""
    readable, unreadable = [], []
    for record in records:
        try:
            readable.append(decrypt_record(key_pair, record))
        except Unreadable:
            unreadable.append(record["id"])
    return readable, unreadable


def encrypt_record(key_pair, clear):
    """The payload to PUT for a clear record. To delete a record for all devices encrypt {"id": ..., "deleted": True}."""
    iv = os.urandom(16)
    padder = padding.PKCS7(128).padder()
    # Half a surrogate pair is in titles that were cut: JSON can say it, UTF-8 can't.
    text = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", json.dumps(clear, ensure_ascii=False))
    padded = padder.update(text.encode()) + padder.finalize()
    encryptor = Cipher(algorithms.AES(key_pair.encryption), modes.CBC(iv)).encryptor()
    ciphertext = base64.b64encode(encryptor.update(padded) + encryptor.finalize())
    mac = hmac.new(key_pair.authentication, ciphertext, hashlib.sha256).hexdigest()
    return json.dumps({"ciphertext": ciphertext.decode(), "IV": base64.b64encode(iv).decode(), "hmac": mac})
