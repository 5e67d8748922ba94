"""Adds bookmarks."""

import base64
import dataclasses
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from .addresses import address_of, normalized, shared_fields
from .answers import TransactionResponse
from .bookmarks import BookmarkNode, bookmark_tree, folder_named, walk
from .crypto import ClearRecord
from .errors import ClientError
from .fields import names_of, quoted, text_of, texts_of, trimmed
from .sync_client import SyncClient
from .transactions import TransactionRequest

# Firefox removes bookmarks with a longer URL.
_LONGEST_URL = 65_536
# Firefox ignores longer tags. It counts UTF-16 code units.
_LONGEST_TAG = 100
# A folder of a few hundred entries, which fits into every storage.
_ALWAYS_FITS_BYTES = 16_000


@dataclass(frozen=True)
class AddedBookmark:
    """The ids of a new bookmark and its folder.

    `is_unlisted`: the folder was changed by another client meanwhile, so Firefox will put the bookmark at its end.
    """

    id: str
    folder: str
    is_unlisted: bool


def add_bookmark(
    client: SyncClient,
    url: str,
    *,
    title: str | None = None,
    folder: str = "unfiled",
    tags: Iterable[str] = (),
) -> AddedBookmark:
    """Adds a bookmark like Firefox does: writes it and its folder, which lists it in `children`, in one transaction.

    The default of `title` is the URL; `folder` is the id or title of a folder, by default `unfiled`, "Other Bookmarks". Bookmarks of the same
    address share their tags and their keyword: the new one gets them, and the others get new tags. Raises ClientError, and writes nothing,
    if Firefox would remove the URL or ignore a tag, the folder does not exist, its title is ambiguous, or it is full.
    """
    check_url(url)
    # Firefox does not upload it again in its own form, so other programs would get spaces and capitals of what was typed.
    address = address_of({"bmkUri": url})
    own_tags = _trimmed_tags(tags)
    records = list(client.collection("bookmarks").records())
    tops = bookmark_tree(records)
    node = folder_named(tops, folder)
    parent_id, parent_name = node.record.stored.id, node.clear.get("title")
    new_id = base64.urlsafe_b64encode(os.urandom(9)).decode()
    child: ClearRecord = {
        "id": new_id,
        "type": "bookmark",
        "title": url.strip() if title is None else title,
        "bmkUri": address,
        "parentid": parent_id,
        "parentName": parent_name if isinstance(parent_name, str) else "",
        # Firefox requires it to be no later than the record's timestamp, which has a resolution of 10 ms.
        "dateAdded": int(time.time() * 1000) - 1000,
        "tags": own_tags,
    }
    # In the order of the bridge, newest first: of several keywords, the newest remains.
    nodes = {each.record.stored.id: each for each in walk(tops)}
    listed = [nodes[record.stored.id] for record in records if record.stored.id in nodes]
    others = [other for other in listed if address_of(other.clear) == address]
    shared = shared_fields([*(other.clear for other in others), child])
    untagged = [other for other in others if not set(shared["tags"]) <= set(texts_of(other.clear.get("tags")))]
    folder_put = _change(client, node, {"children": [*texts_of(node.clear.get("children")), new_id]})
    requests = [
        _put(client, {**child, **shared}, {"If-None-Match": "*"}),
        folder_put,
        *(_change(client, other, shared) for other in untagged),
    ]
    if len((folder_put.data or {})["payload"]) > _ALWAYS_FITS_BYTES:
        _require_room(client, requests, node)
    if untagged:
        _write_first(client, requests)
    added, *changed = client.transaction(requests)
    # The id is random: if it exists, this transaction was applied before it was repeated.
    if added.status == 412:
        return AddedBookmark(new_id, parent_id, False)
    _require_written(added)
    for response in changed:
        if response.status != 412:
            _require_written(response)
    return AddedBookmark(new_id, parent_id, changed[0].status == 412)


def _change(client: SyncClient, node: BookmarkNode, fields: ClearRecord) -> TransactionRequest:
    return _put(client, {**node.clear, **fields}, {"If-Match": f'"{node.record.stored.last_modified}"'})


def _put(client: SyncClient, clear: ClearRecord, headers: dict[str, str]) -> TransactionRequest:
    payload = client.encrypt("bookmarks", clear)
    return TransactionRequest("PUT", "bookmarks", clear["id"], headers, {"payload": payload})


def check_url(url: str) -> None:
    """Raises ClientError for a URL that Firefox would remove at its next sync."""
    address = normalized(text_of(url))
    # Firefox encodes letters beyond ASCII, which makes it longer.
    length = max(len(url), len(address or ""))
    if length > _LONGEST_URL:
        raise ClientError(f"Cannot add an address of {length} characters: Firefox keeps {_LONGEST_URL}")
    if address is None:
        advice = "an address must begin with https:// or similar, without spaces in its host"
        raise ClientError(f"Cannot add {quoted(url)}: {advice}")


def _trimmed_tags(tags: Iterable[str]) -> list[str]:
    """Trims tags like Firefox does. Raises ClientError for one that it would ignore."""
    trimmed = [trimmed(tag) for tag in names_of(tags)]
    for tag in trimmed:
        if tag == "" or len(tag.encode("utf-16-le", "surrogatepass")) // 2 > _LONGEST_TAG:
            advice = f"Firefox ignores blank tags, and those of more than {_LONGEST_TAG} characters"
            raise ClientError(f"Cannot add the tag {quoted(tag)}: {advice}")
    return trimmed


def _require_room(client: SyncClient, requests: list[TransactionRequest], node: BookmarkNode) -> None:
    """Raises if the folder is too large for the storage. Tests that with conditions that always fail, so nothing is written.

    With both records, because a bridge reads the storage's limits only for several.
    """
    _, listed = client.transaction(dataclasses.replace(each, headers={"If-Match": '"1"'}) for each in requests[:2])
    if listed.status != 413:
        return
    count = len(texts_of(node.clear.get("children")))
    message = f"the folder {quoted(node.title)} is full, with {count} entries. Choose another one"
    raise ClientError(f"Nothing was written: {message}", status=413)


def _write_first(client: SyncClient, requests: list[TransactionRequest]) -> None:
    """Writes the new tags that don't fit into one transaction with the bookmark. Before it, so that a failure adds nothing."""
    most = client.info().max_requests
    while len(requests) > max(2, most):
        end = 2 + min(most, len(requests) - most)
        for response in client.transaction(requests[2:end]):
            if response.status != 412:
                _require_written(response)
        del requests[2:end]


def _require_written(response: TransactionResponse) -> None:
    if response.status == 200:
        return
    remedy = ": its operator has not enabled writes to bookmarks" if response.status == 405 else ""
    message = f"Cannot write the bookmark: {response.status} {text_of(response.body.get('message'))}{remedy}"
    raise ClientError(message, status=response.status)
