#!/usr/bin/env python3
"""Adds a bookmark to a folder so that every Firefox of the account shows it there.

    python3 -m venv sync-python
    sync-python/bin/pip install cryptography==48.0.0
    sync-python/bin/python docs/examples/python/add_bookmark.py FOLDER TITLE URL

FOLDER is the title of a folder, or one of `menu`, `toolbar`, `unfiled` and `mobile`. The account is that of account.py, SYNC_KEY included;
its operator has to allow writes to bookmarks. The bookmark and its folder, whose list of children decides, are written in one batch.
"""

import base64
import os
import re
import sys
import time
from urllib.parse import quote

try:
    from sync_crypto import Unreadable, collection_keys, decrypt_records, encrypt_record, key_pair_from_hex
except ImportError:
    sys.exit("This needs the package cryptography:\n" + "\n".join(__doc__.splitlines()[2:5]))
from account import Account, Refused


def check_address(url):
    """Ends the program for what Firefox removes at its next sync: an address that it cannot read, or does not keep."""
    if len(url) > 65_536:
        sys.exit(f"Cannot add an address of {len(url)} characters: Firefox keeps 65536")
    if not re.match(r"[a-z][a-z0-9+.-]*:(//[^\s/?#]+([/?#]|$)|[^\s/])", url, re.I):
        sys.exit(f"Cannot add {url!r}: an address begins with https:// or the like")


def find_folder(bookmarks, wanted):
    """The folder of that id or title; ends the program unless there is just one."""
    folders = [each for each in bookmarks if each.get("type") == "folder" and not each.get("deleted")]
    found = [each for each in folders if each["id"] == wanted] or [each for each in folders if each.get("title") == wanted]
    if len(found) != 1:
        sys.exit(f"There {'is no folder' if not found else f'are {len(found)} folders'} of that title")
    return found[0]


def put(record, payload, condition):
    path = f"/collections/bookmarks/records/{quote(record, safe='')}"
    return {"method": "PUT", "path": path, "headers": condition, "body": {"data": {"payload": payload}}}


def main():
    if len(sys.argv) != 4:
        sys.exit("Usage: python3 add_bookmark.py FOLDER TITLE URL")
    _, wanted, title, url = sys.argv
    check_address(url)
    account = Account("SYNC_KEY")
    [keys_record] = account.list("/collections/crypto/records/keys")
    keys = collection_keys(key_pair_from_hex(account.values["SYNC_KEY"]), keys_record)("bookmarks")
    records = account.list("/collections/bookmarks/records")
    folder = find_folder(decrypt_records(keys, records)[0], wanted)
    version = next(each["last_modified"] for each in records if each["id"] == folder["id"])

    bookmark = {
        "id": base64.urlsafe_b64encode(os.urandom(9)).decode(),
        "type": "bookmark",
        "title": title,
        "bmkUri": url,
        "parentid": folder["id"],
        "parentName": folder.get("title", ""),
        # Firefox wants it no later than the record's own timestamp, which the storage keeps to 10 ms.
        "dateAdded": int(time.time() * 1000) - 1000,
        "tags": [],
    }
    changed = {**folder, "children": [*folder.get("children", []), bookmark["id"]]}
    responses = account.batch(
        [
            put(bookmark["id"], encrypt_record(keys, bookmark), {"If-None-Match": "*"}),
            put(folder["id"], encrypt_record(keys, changed), {"If-Match": f'"{version}"'}),
        ]
    )
    for response in responses:
        if response["status"] == 412:
            print("Somebody has changed the folder meanwhile: Firefox will put the bookmark at its end")
        elif response["status"] != 200:
            sys.exit(f"Cannot write: {response['status']} {response['body'].get('message', '')}")
    print(f"Added {bookmark['id']} to {folder['id']}")


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        sys.exit(f"The bridge answers {refused}")
    except (Unreadable, ValueError) as error:
        sys.exit(str(error))
