"""Runs one scene with kinto-http, by name, and prints its result as JSON."""

import json
import sys
import time
import warnings

from kinto_http import BearerTokenAuth, Client
from kinto_http.exceptions import BackoffException

SCENE, URL, BUCKET, TOKEN, KEY_ID = sys.argv[1:]


def client(**more):
    options = {"bucket": BUCKET, "collection": "bookmarks", "headers": {"X-KeyID": KEY_ID}, **more}
    return Client(server_url=URL, auth=BearerTokenAuth(TOKEN), **options)


def ids(records):
    return [record["id"] for record in records]


def retry():
    began = time.monotonic()
    records = client(retry=1).get_records()
    return {"ids": ids(records), "waited": time.monotonic() - began >= 0.9}


def pause():
    c = client()
    first = ids(c.get_records())
    try:
        c.get_records()
    except BackoffException as error:
        return {"first": first, "backoff": error.backoff}


def announcement():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client().get_records()
    return [[warning.category.__name__, json.loads(str(warning.message))] for warning in caught]


json.dump(globals()[SCENE](), sys.stdout)
