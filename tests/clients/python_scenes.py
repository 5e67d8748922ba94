"""Plays one scene with kinto-http, by its name, and prints what came of it as JSON."""

import json
import sys
import time
import warnings

from kinto_http import BearerTokenAuth, Client
from kinto_http.exceptions import BackoffException

SCENE, URL, *PEOPLE = sys.argv[1:]
(BUCKET, TOKEN, KEY_ID), *OTHERS = zip(*[iter(PEOPLE)] * 3)


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


def whole_list():
    return ids(client().get_records())


def change_between_pages():
    c = client()
    shown = ids(c.get_records(_limit=2, pages=float("inf")))
    timestamp = c.get_records_timestamp()
    return {"shown": shown, "new": ids(c.get_records(_since=timestamp))}


def other_account():
    c = client()
    first = ids(c.get_records())
    [(bucket, token, key_id)] = OTHERS
    c.session.auth = BearerTokenAuth(token)
    c.session.headers["X-KeyID"] = key_id
    return {"first": first, "second": ids(c.get_records(bucket=bucket))}


json.dump(globals()[SCENE](), sys.stdout)
