"""Makes the calls that applications make with kinto-http, and prints the result of each as JSON."""

import json
import sys
import warnings

from kinto_http import BearerTokenAuth, Client, KintoException
from kinto_http.exceptions import BackoffException

URL, BUCKET, TOKEN, KEY_ID = sys.argv[1:]
outcomes = {}


def client(**more):
    headers = {"X-KeyID": KEY_ID, **more.pop("headers", {})}
    options = {"bucket": BUCKET, "collection": "bookmarks", "headers": headers, **more}
    return Client(server_url=URL, auth=BearerTokenAuth(TOKEN), **options)


def attempt(name, call):
    try:
        outcomes[name] = call()
    except KintoException as error:
        outcomes[name] = f"HTTP {error.response.status_code}"
    except (BackoffException, TypeError) as error:
        outcomes[name] = type(error).__name__


def ids(records):
    return [record["id"] for record in records]


def batch():
    with client().batch() as requests:
        for number in range(30):
            requests.create_record(id=f"batch {number}", data={"payload": "x"})
        requests.delete_record(id="batch-0")
    return len(requests.results())


def deletion_in_batch():
    with client().batch() as requests:
        requests.create_record(id="short", data={"payload": "x"})
        requests.delete_record(id="short")
    return [body.get("data", {}).get("deleted") for body in requests.results()]


c = client()
attempt("settings", lambda: c.server_info()["settings"]["batch_max_requests"])
attempt("create", lambda: c.create_record(id="r", data={"payload": "one"})["data"]["payload"])
attempt("create again", lambda: c.create_record(id="r", data={"payload": "two"}))
attempt("create if needed", lambda: c.create_record(id="r", data={"payload": "two"}, if_not_exists=True)["data"]["id"])
known = c.get_record(id="r")["data"]
attempt("update", lambda: c.update_record(data={**known, "payload": "two"})["data"]["payload"])
attempt("stale update", lambda: c.update_record(data={**known, "payload": "three"}))
attempt("generated id", lambda: len(c.create_record(data={"payload": "x"})["data"]["id"]))
attempt("patch", lambda: c.patch_record(id="r", data={"sortindex": 1}))
attempt("one by id", lambda: ids(c.get_records(in_id="r")))
attempt("ids in a list", lambda: sorted(ids(c.get_records(in_id=["r", "-dash", "{guid}"]))))
attempt("excluded", lambda: sorted(ids(c.get_records(exclude_id=["r"], _before=str(known["last_modified"])))))
attempt("pages", lambda: sum(len(page["data"]) for page in c.get_paginated_records(_limit=2)))
attempt("all pages", lambda: len(c.get_records(_limit=2, pages=float("inf"))))
timestamp = client().get_records_timestamp()
attempt("since", lambda: c.get_records(_since=timestamp))
attempt("since, quoted", lambda: c.get_records(_since=f'"{timestamp}"'))
attempt("not modified", lambda: c.get_records(if_none_match=timestamp))
attempt("dash", lambda: c.get_record(id="-Dash"))
attempt("dash in a list", lambda: ids(c.get_records(in_id=["-Dash"])))
attempt("collection", lambda: c.get_collection()["data"]["id"])
attempt("read-only", lambda: client(collection="history").create_record(id="r", data={"payload": "x"}))
attempt("wrong token", lambda: Client(server_url=URL, auth="Bearer x", bucket=BUCKET, collection="tabs").get_records())
attempt("delete", lambda: c.delete_record(id="r"))
attempt("deleted", lambda: c.get_record(id="r"))
c.create_record(id="s", data={"payload": "x"})
preferring = client(headers={"Prefer": "return=representation"})
attempt("delete with Prefer", lambda: preferring.delete_record(id="s")["deleted"])
attempt("batch", batch)
attempt("deletion in batch", deletion_in_batch)

json.dump(outcomes, sys.stdout)
