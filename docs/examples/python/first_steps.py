#!/usr/bin/env python3
"""Reads a collection through Sync Bridge with the official Python client.

    python3 -m venv kinto-python
    kinto-python/bin/pip install kinto-http==11.11.0

    set -a; . ./account.env; set +a
    kinto-python/bin/python first_steps.py bookmarks

The file, which only you can read, has lines BRIDGE_URL=..., BUCKET=... (your client state), BEARER_TOKEN=... (an OAuth access
token for Sync) and KEY_ID=... (the id of your keys). Instead of the last two, old token servers take ASSERTION=...

`sync-bridge sandbox` prints the name of a file that sets all of them, to try this without an account.
"""

import os
import shlex
import sys

try:
    from kinto_http import Client, TokenAuth
except ImportError:
    sys.exit(f"""This needs the package kinto-http. To install it in its own folder, and run this again:

  python3 -m venv kinto-python
  kinto-python/bin/pip install kinto-http==11.11.0
  kinto-python/bin/python {shlex.join(sys.argv)}
""")


def connect(collection):
    """A client for one collection of the account that the environment names."""
    identity = ["ASSERTION"] if "ASSERTION" in os.environ and "BEARER_TOKEN" not in os.environ else ["BEARER_TOKEN", "KEY_ID"]
    missing = [name for name in ["BRIDGE_URL", "BUCKET", *identity] if not os.environ.get(name)]
    if missing:
        sys.exit(f"Set {', '.join(missing)}: docs/connect.md says how to get them")
    if "BEARER_TOKEN" in os.environ:
        auth = TokenAuth(os.environ["BEARER_TOKEN"], type="Bearer")
        headers = {"X-KeyID": os.environ["KEY_ID"]}
    else:
        # As plain text, the client itself would reject "BrowserID ...".
        auth = TokenAuth(os.environ["ASSERTION"], type="BrowserID")
        headers = {}
    return Client(
        server_url=f"{os.environ['BRIDGE_URL'].rstrip('/').removesuffix('/v1')}/v1",
        auth=auth,
        bucket=os.environ["BUCKET"],
        collection=collection,
        headers=headers,
        retry=2,
    )


def total(client):
    """How many records there are, without reading them."""
    _, headers = client.session.request("head", client.get_endpoint("records"))
    return int(headers["Total-Records"])


def one_record(client, record_id):
    """A record by its id, whatever the id looks like.

    `client.get_record(id=...)` rewrites ids that begin with "-", "_" or "{": those can only be asked for in a list.
    """
    found = client.get_records(in_id=[record_id])
    return found[0] if found else None


def main():
    collection = sys.argv[1] if len(sys.argv) > 1 else "bookmarks"
    client = connect(collection)

    print(f"{client.server_info()['project_name']} has {total(client)} records in {collection}")

    newest = client.get_records(_sort="newest", _limit=3)
    # The timestamp of the last list that was read. Save it, and request only newer records the next time:
    # client.get_records(_since=timestamp)
    timestamp = client.get_records_timestamp()
    for record in newest:
        print(f"{record['last_modified']} {record['id']} ({len(record['payload'])} bytes, encrypted)")

    if newest:
        record = one_record(client, newest[0]["id"])
        print(f"the newest of them, asked for alone: {record['id']}")

    print(f"as of {timestamp}")


if __name__ == "__main__":
    main()
