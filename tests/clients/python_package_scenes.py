"""Runs one scene with sync-bridge-client, by name, and prints its result as JSON, for the account in its file."""

import datetime
import io
import json
import os
import re
import sys
import traceback
from contextlib import redirect_stderr
from dataclasses import asdict
from typing import Any, Callable, Dict, List

from sync_bridge_client import (
    EXPORT_FORMATS,
    Account,
    AddEdit,
    ChangeEdit,
    ClientError,
    ClientOptions,
    Edit,
    MoveEdit,
    RemoveEdit,
    StoredRecord,
    SyncClient,
    SyncRecord,
    TransactionRequest,
    bookmark_tree,
    check_account,
    connect,
    describe_record,
    device_tabs,
    fault_of,
    folder_called,
    folder_named,
    format_account,
    is_readable,
    is_usable,
    name_record,
    parse_account,
    read_account_file,
    read_visited_page,
    revoke_refresh_token,
    text_of,
    tokens,
    walk,
)
from sync_bridge_client.addresses import address_of
from sync_bridge_client.edit.apply_edits import apply_edits
from sync_bridge_client.edit.edit_requests import requests_of
from sync_bridge_client.edit.edits import invalidity
from sync_bridge_client.edit.edits_between import edits_between
from sync_bridge_client.edit.tree import read_tree

SCENE, *ARGUMENTS = sys.argv[1:]
slept: List[float] = []


def own_account(file: str | None = None) -> Account:
    """The account of a file; its bridge is that of the scene."""
    return read_account_file(file, bridge_url=os.environ.get("SCENE_BRIDGE"))


def client() -> SyncClient:
    return connect(own_account(), sleep=slept.append)


def told(records: List[SyncRecord]) -> List[Dict[str, Any]]:
    return [asdict(record) for record in records]


def everything() -> Any:
    c = client()
    return {info.name: told(list(c.collection(info.name).records())) for info in c.collections()}


def pages() -> Any:
    found = list(client().collection("bookmarks").pages(page_size=2))
    return [[page.last_modified, [[each.stored.id, (each.clear or {}).get("title")] for each in page.records]] for page in found]


def count() -> Any:
    return {"count": asdict(client().collection("bookmarks").count()), "slept": slept}


def opened() -> Any:
    """The number of bookmarks of each account, or its error."""
    found: List[Any] = []
    for file in ARGUMENTS:
        try:
            found.append(connect(own_account(file)).collection("bookmarks").count().total)
        except ClientError as error:
            found.append(failure(error))
    return found


def impatient() -> Any:
    """The error of an account that is opened with short deadlines."""
    usual = tokens._TIMEOUT_SECONDS
    tokens._TIMEOUT_SECONDS = 1
    try:
        return outcome_of("count")
    finally:
        tokens._TIMEOUT_SECONDS = usual


def replaced() -> Any:
    """Renews a token while another account is written to the file."""
    account = own_account()
    assert account.file is not None
    other = account.file.read_text().replace(account.refresh_token, "other")
    account.file.write_text(other)
    connect(account)
    return account.file.read_text() == other


def add() -> Any:
    """Adds a bookmark; its id, or None if nothing was written."""
    result = client().edit([AddEdit(**json.loads(ARGUMENTS[0]))])
    if result.saved is None:
        return None
    before = {record.id for record in result.saved.before}
    return {"id": next(each.id for each in result.saved.after if each.id not in before), "written": result.written}


def misused() -> Any:
    """Strings for lists of names, and a missing value."""
    c = client()
    account = Account(bridge_url="http://a", token=None)  # type: ignore[arg-type]
    found: List[str] = []
    for call in (
        lambda: c.remove("bookmarks", "later"),
        lambda: c.changes(collections="forms"),
        lambda: c.changes(exclude="forms"),
        lambda: check_account(account),
    ):
        try:
            call()
        except (TypeError, ClientError) as error:
            found.append(str(error))
    return found


def rename() -> Any:
    """Writes a bookmark with another title, one that is not writable, and one that another client has changed."""
    c = client()
    title = json.loads(ARGUMENTS[0])
    payload = c.encrypt("bookmarks", {"id": "renamed", "type": "bookmark", "title": title})
    requests = [
        TransactionRequest("PUT", "bookmarks", "renamed", data={"payload": payload}),
        TransactionRequest("PUT", "history", "renamed", data={"payload": payload}),
        TransactionRequest("PUT", "bookmarks", "renamed", {"If-Match": '"10"'}, {"payload": payload}),
        TransactionRequest("GET", "bookmarks", "renamed"),
    ]
    return [response.status for response in c.transaction(requests)]


def watch() -> Any:
    """Watches until the scene ends: the argument says what happens while the client sleeps."""
    failures: List[str] = []
    naps: List[float] = []
    pauses: List[int] = []
    seen: List[SyncRecord] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        print(json.dumps({"asleep": len(naps)}), flush=True)
        if sys.stdin.readline() == "":
            raise KeyboardInterrupt

    c = connect(own_account(), sleep=nap, on_pause=lambda _, status: pauses.append(status))
    try:
        for record in c.changes(every_seconds=7, exclude=["forms"], on_error=lambda error: failures.append(str(error))):
            seen.append(record)
    except KeyboardInterrupt:
        pass
    return {"seen": told(seen), "naps": naps, "pauses": pauses, "failures": failures}


def addresses() -> Any:
    refused = []
    for url in json.load(sys.stdin):
        if invalidity("bookmark", {"address": url}) is not None:
            refused.append(url)
    return refused


def stored_addresses() -> Any:
    return [address_of({"bmkUri": url}) for url in json.load(sys.stdin)]


def accounts() -> Any:
    """The account of each text, as lines, or the invalid field with the reason."""
    found: List[Any] = []
    for text in json.load(sys.stdin):
        try:
            found.append(format_account(check_account(parse_account(text))))
        except ClientError as error:
            found.append([error.field, str(error)])
    return found


def sync_record(collection: str, clear: Dict[str, Any]) -> SyncRecord:
    return SyncRecord(collection, StoredRecord(str(clear["id"]), 1_700_000_000_000), clear, None)


def files() -> Any:
    """The records of each collection in each format, and what is said about each record."""
    given = json.load(sys.stdin)
    records = {name: [sync_record(name, clear) for clear in clears] for name, clears in given.items()}
    everything = [record for each in records.values() for record in each]
    data: Dict[str, Any] = {
        "bookmarks": bookmark_tree(records["bookmarks"]),
        "history": [read_visited_page(clear) for clear in given["history"]],
        "passwords": given["passwords"],
        "tabs": [device_tabs(record) for record in records["tabs"]],
    }
    texts = {
        f"{what} {name}": "".join(form(data[what]))
        for what, forms in EXPORT_FORMATS.items()
        if what != "everything"
        for name, form in forms.items()
    }
    moment = datetime.datetime.fromtimestamp(1, datetime.timezone.utc)
    texts["everything json"] = "".join(EXPORT_FORMATS["everything"]["json"](everything, {"forms": "Reason"}, moment))
    said: List[List[Any]] = [
        [describe_record(each.collection, each.clear or {}), name_record(each.collection, each.clear or {})]
        + [fault_of(each.collection, each.clear or {}), is_usable(each.collection, each.clear or {})]
        for each in everything
    ]
    tree = read_tree(records["bookmarks"])
    titles = [item.title for item in tree.items.values()]
    # Half a character is U+FFFD in Python, and stays in JavaScript.
    wanted = [*tree.items, *(title for title in titles if "\ufffd" not in title), "MENU"]
    folders = [
        [named(lambda: folder_called(tree, each).id), named(lambda: folder_named(data["bookmarks"], each).record.stored.id)]
        for each in wanted
    ]
    places = [
        [node.record.stored.id, node.kind, node.title, node.path, node.level, node.position, node.siblings, node.count]
        for node in walk(data["bookmarks"])
    ]
    return {"texts": texts, "said": said, "wanted": wanted, "folders": folders, "places": places}


def named(find: Callable[[], str]) -> str:
    try:
        return find()
    except ClientError as error:
        return str(error)


def stored_records(given: List[Dict[str, Any]]) -> List[SyncRecord]:
    return [SyncRecord("bookmarks", StoredRecord(each["id"], each["version"]), each["clear"], None) for each in given]


def shape(edit: Edit) -> Dict[str, Any]:
    """An edit as JavaScript has it, with the defaults of those that are absent."""
    match edit:
        case ChangeEdit():
            return {"op": "change", **asdict(edit)}
        case MoveEdit():
            return {"op": "move", **asdict(edit)}
        case RemoveEdit():
            return {"op": "remove", **asdict(edit)}
    return {"op": "add", **asdict(edit)}


def edit_of(given: Dict[str, Any]) -> Edit:
    values = {name: value for name, value in given.items() if name != "op"}
    kinds: Dict[str, Callable[..., Edit]] = {"add": AddEdit, "change": ChangeEdit, "move": MoveEdit, "remove": RemoveEdit}
    return kinds[given["op"]](**values)


def edits() -> Any:
    """For each case: the edits between two trees, what they do to a third one, and the records that are written."""
    results: List[Any] = []
    for case in json.load(sys.stdin):
        shown, now, wanted = (read_tree(stored_records(case[name])) for name in ("shown", "now", "wanted"))
        was_stored = case["wasStored"]
        between = edits_between(shown, wanted, was_stored)
        applied = apply_edits(now, [*between, *map(edit_of, case["edits"])], shown, was_stored)
        results.append(
            {
                "edits": [shape(edit) for edit in between],
                "problems": [[problem.code, problem.id, problem.message] for problem in applied.problems],
                "writes": [asdict(write) for write in requests_of(now, applied.tree)],
            }
        )
    return results


def edited() -> Any:
    """Adds, changes, moves and removes bookmarks and a login, each undone, and says what is there after each step."""
    c = client()

    def state() -> List[str]:
        nodes = walk(bookmark_tree(c.collection("bookmarks").records()))
        logins = [record.clear["username"] for record in c.collection("passwords").records() if is_readable(record) and record.clear]
        return [f"{node.path}/{node.title} {' '.join(node.bookmark.tags)}".strip() for node in nodes if node.level > 1] + logins

    steps = [state()]
    added = c.edit([AddEdit(address="https://a.example/", title="A", tags=["x"], folder="menu")])
    steps.append(state())
    new_id = added.saved.after[0].id if added.saved else ""
    bookmark = next(record.stored.id for record in added.records if (record.clear or {}).get("bmkUri") == "https://a.example/")
    changed = c.edit([ChangeEdit(bookmark, {"title": "B", "tags": ["y"]}), MoveEdit(bookmark, "toolbar", after=None)])
    steps.append(state())
    login = c.edit([AddEdit(record={"hostname": "https://p.example", "username": "u", "password": "p"})], "passwords")
    steps.append(state())
    removed = c.remove("bookmarks", [bookmark])
    steps.append(state())
    for result in (removed, login, changed, added):
        if result.saved is not None:
            c.undo(result.saved)
        steps.append(state())
    return {"steps": steps, "written": [result.written for result in (added, changed, login, removed)], "id": new_id != ""}


def undone() -> Any:
    """Deletes and changes bookmarks that Firefox would not take, and renames another: what there is to say after each undo, and is there."""
    c = client()

    def state() -> List[Dict[str, Any]]:
        clear = [record.clear for record in c.collection("bookmarks").records() if is_readable(record) and record.clear]
        return sorted(clear, key=lambda record: record["id"])

    before = state()
    outcomes: List[Any] = []
    odd = [record["id"] for record in before if record["type"] == "bookmark"]
    rename = ChangeEdit("good", {"title": "New"})
    new = {"title": "New", "address": "https://new.example/", "tags": ["new"], "keyword": "new"}
    for edits in ([RemoveEdit(each) for each in odd if each != "good"], [ChangeEdit(each, new) for each in odd]):
        result = c.edit([*edits, rename])
        undone = c.undo(result.saved) if result.saved else None
        outcomes.append([[problem.message for problem in undone.problems] if undone else None, state() == before])
    result = c.edit([rename, RemoveEdit("inside")])
    folder = next(record for record in before if record["id"] == "folder")
    # Firefox never makes a bookmark of a folder, but other programs do.
    c.transaction([TransactionRequest("PUT", "bookmarks", "folder", data={"payload": c.encrypt("bookmarks", {**folder, "type": "bookmark"})})])
    undone = c.undo(result.saved) if result.saved else None
    outcomes.append([[problem.message for problem in undone.problems] if undone else None, c.tree().items["good"].title])
    c.edit([ChangeEdit("good", {"keyword": "moved"})])
    freed = c.edit([ChangeEdit("good", {"keyword": ""})])
    c.edit([ChangeEdit("long", {"keyword": "moved"})])
    undone = c.undo(freed.saved) if freed.saved else None
    outcomes.append([[problem.message for problem in undone.problems] if undone else None, c.tree().items["good"].keyword])
    login = {"id": "{1}", "hostname": "https://p.example", "username": "u", "password": "p", "httpRealm": None}
    c.edit([AddEdit(id="{1}", record=login)], "passwords")
    changed = c.edit([ChangeEdit("{1}", {"httpRealm": "r", "formSubmitURL": "https://p.example"})], "passwords")
    if changed.saved is not None:
        c.undo(changed.saved)
    outcomes.append([record.clear == login for record in c.collection("passwords").records()])
    return outcomes


def divided() -> Any:
    """Adds a folder of sixty bookmarks in parts, and takes them back in parts; what must not be divided is refused."""
    c = client()
    folder = AddEdit(id="aaaaaaaaaaaa", kind="folder", title="Many")
    links = [AddEdit(address=f"https://{index}.example/", folder="aaaaaaaaaaaa") for index in range(60)]
    added = c.edit([folder, *links])
    refused = ""
    try:
        c.remove("bookmarks", ["aaaaaaaaaaaa"])
    except ClientError as error:
        refused = str(error)
    before = len(c.tree().items["aaaaaaaaaaaa"].children)
    parts: List[int] = []
    if added.saved is not None:
        c.undo(added.saved, lambda saved: parts.append(len(saved.after)))
    return {"before": before, "refused": refused, "after": list(c.tree().items["unfiled"].children), "parts": len(parts)}


def hostile() -> Any:
    """What a program does with a client, for a bridge of each address: how often that was done, refused, or ended otherwise."""
    outcomes: Dict[str, Any] = {"done": 0, "refused": 0, "failures": []}
    uses: List[Callable[[SyncClient], object]] = [
        lambda c: c.collections(),
        lambda c: c.info(),
        lambda c: c.collection("history").count(),
        lambda c: [
            (describe_record(info.name, each.clear or {}), fault_of(info.name, each.clear or {}))
            for info in c.collections()
            for each in c.collection(info.name).records()
        ],
        lambda c: list(c.collection("forms").pages(page_size=2)),
        lambda c: ["".join(form(bookmark_tree(c.collection("bookmarks").records()))) for form in EXPORT_FORMATS["bookmarks"].values()],
        lambda c: ["".join(form(map(device_tabs, c.collection("tabs").records()))) for form in EXPORT_FORMATS["tabs"].values()],
        lambda c: "".join(EXPORT_FORMATS["everything"]["json"](c.collection("passwords").records(), {}, datetime.datetime.now())),
        lambda c: c.edit([AddEdit(address="https://new.example/", folder="menu", tags=["x"])]),
        lambda c: c.edit([ChangeEdit("aaaaaaaaaaaa", {"title": "B", "tags": ["y"]})]),
        lambda c: c.remove("bookmarks", ["ffffffffffff"]),
        lambda c: next(c.changes(since=0)),
    ]
    account = Account(**json.loads(ARGUMENTS[0]))
    for _ in range(int(ARGUMENTS[1])):
        for index, use in enumerate(uses):
            try:
                use(SyncClient(account, ClientOptions(sleep=stop if index == len(uses) - 1 else slept.append)))
                outcomes["done"] += 1
            except (ClientError, EndOfScene):
                outcomes["refused"] += 1
            except Exception:
                outcomes["failures"].append(f"use {index}: {traceback.format_exc()}")
    return outcomes


class EndOfScene(Exception):
    pass


def stop(_: float) -> None:
    raise EndOfScene


def memory() -> Any:
    """The number of readable records of a collection, and the peak of the memory that reading them took, in MB."""
    total = sum(1 for each in client().collection(ARGUMENTS[0]).records() if each.clear)
    # The usage that the system reports begins with that of the parent process.
    peak = re.search(r"VmHWM:\s+([0-9]+) kB", open("/proc/self/status").read())
    return [total, int(peak[1]) // 1024 if peak else None]


def shown() -> Any:
    """The printed form of an account."""
    return repr(own_account())


def revoke() -> Any:
    return revoke_refresh_token(own_account())


def failure(error: ClientError) -> Dict[str, Any]:
    return {"error": str(error), "field": error.field, "status": error.status}


def outcome_of(scene: str) -> Any:
    try:
        return globals()[scene]()
    except ClientError as error:
        return failure(error)


def serve() -> Any:
    """Runs the scenes that the lines of its input describe, because a new process takes a second. Prints a line for each."""
    lines = sys.stdin
    for line in lines:
        asked = json.loads(line)
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.stdin = io.StringIO(asked["input"])
        ARGUMENTS[:] = asked["arguments"]
        slept.clear()
        with redirect_stderr(io.StringIO()) as errors:
            outcome = outcome_of(asked["scene"])
        print(json.dumps({"outcome": outcome, "errors": errors.getvalue()}), flush=True)


if __name__ == "__main__":
    print(json.dumps(outcome_of(SCENE)))
