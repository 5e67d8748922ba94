"""The records that lead from one tree to another."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..addresses import address_of
from ..bookmark_places import TOP_ID
from ..crypto import ClearRecord
from ..engines import read_bookmark
from ..fields import list_of, text_of, texts_of
from .edits import is_root
from .tree import Item, Tree, is_link, same_tags, version_of


@dataclass(frozen=True)
class RecordWrite:
    """A record to write, on the condition that it still has this version.

    `record` is not encrypted yet, and a tombstone for a deletion; `version` is the timestamp of what it replaces, None if there must be no
    record.
    """

    id: str
    record: ClearRecord
    version: int | None


def requests_of(before: Tree, after: Tree, also: Iterable[str] = ()) -> list[RecordWrite]:
    """The records that lead from one tree to the other, as Firefox writes them. Pure.

    Each item that differs, the folders whose contents differ, a tombstone for everything that was removed. Folders come first. A written
    item must be listed by its folder and by no other, so invalid folders around it, and invalid records in a written folder, are written,
    too; others stay as they are. `also`: items to write although they are the same.
    """
    written: dict[str, None] = dict.fromkeys(also)
    for item in after.items.values():
        former = before.items.get(item.id)
        if item is not former and (former is None or not _is_same_item(former, item)):
            written[item.id] = None
    written.update(dict.fromkeys(_losing_tags(before, after)))
    _add_folders(after, written)
    items = sorted((after.items[each] for each in written), key=lambda item: item.kind != "folder")
    removed = [each for each in before.items if each not in after.items]
    return [
        *(RecordWrite(item.id, record_of(after, item), item.version) for item in items),
        *(RecordWrite(each, {"id": each, "deleted": True}, version_of(before, each)) for each in removed),
    ]


def _is_same_item(one: Item, other: Item) -> bool:
    """Whether two states of an item have the same record; its place is in the record of its folder."""
    names = ("parent", "title", "address", "keyword", "children")
    return all(getattr(one, name) == getattr(other, name) for name in names) and same_tags(one.tags, other.tags)


def _losing_tags(before: Tree, after: Tree) -> list[str]:
    """When a bookmark leaves an address, Firefox clears the tags and keyword of that address: its other bookmarks are written again."""
    left: set[str] = set()
    for item in before.items.values():
        if item.address == "" or (not item.tags and item.keyword == ""):
            continue
        now = after.items.get(item.id)
        if now is None or now.address != item.address:
            left.add(address_of({"bmkUri": item.address}))
    if not left:
        return []
    return [item.id for item in after.items.values() if item.address and address_of({"bmkUri": item.address}) in left]


def _add_folders(after: Tree, written: dict[str, None]) -> None:
    """Adds the folders of written items that don't list them in their stored records, and other folders that do."""
    listers: dict[str, list[str]] = {}
    for folder in after.items.values():
        if folder.kind == "folder":
            for child in dict.fromkeys(texts_of(folder.record.get("children"))):
                listers.setdefault(child, []).append(folder.id)
    waiting = list(written)

    def write(more: Iterable[str]) -> None:
        for each in more:
            if each not in written:
                written[each] = None
                waiting.append(each)

    def is_sound(item: Item) -> bool:
        """Whether no other record says that an item is elsewhere."""
        is_here = all(folder == item.parent for folder in listers.get(item.id, []))
        return is_here and item.record.get("parentid") == item.parent

    for item_id in waiting:
        item = after.items[item_id]
        # What another folder lists, too, would be elsewhere once this one is written.
        write(child for child in item.children if child in after.items and not is_sound(after.items[child]))
        if is_root(item):
            continue
        stored_in = listers.get(item_id, [])
        if item.parent not in stored_in and item.parent in after.items:
            write([item.parent])
        write(folder for folder in stored_in if folder != item.parent)


def record_of(tree: Tree, item: Item) -> ClearRecord:
    """An item as a record: the stored one with the fields that differ."""
    record: ClearRecord = {**item.record, "id": item.id}
    is_folder = item.kind == "folder"
    if is_folder or text_of(record.get("type")) == "":
        record["type"] = item.kind
    if record.get("parentid") != item.parent:
        record["parentid"] = item.parent
        record["parentName"] = _parent_name(tree.items.get(item.parent), item.parent)
    if is_root(item):
        record["title"] = text_of(record.get("title")) or item.id
    elif item.kind != "separator" and text_of(record.get("title")) != item.title:
        record["title"] = item.title
    if is_link(item.kind):
        if text_of(record.get("bmkUri")) != item.address:
            record["bmkUri"] = item.address
        # Other programs write bookmarks without tags; Firefox never does.
        is_new = text_of(item.record.get("type")) == ""
        if is_new or not same_tags(texts_of(record.get("tags")), item.tags):
            record["tags"] = list(item.tags)
        if item.keyword != "":
            record["keyword"] = item.keyword
        elif text_of(record.get("keyword")) != "":
            del record["keyword"]
    if is_folder and list_of(record.get("children")) != list(item.children):
        record["children"] = list(item.children)
    if is_folder and record.get("children") is None:
        record["children"] = []
    if item.added_ms > 0 and read_bookmark(record).added_ms == 0:
        record["dateAdded"] = int(item.added_ms)
    return record


def _parent_name(parent: Item | None, parent_id: str) -> str:
    if parent_id == TOP_ID or parent is None:
        return ""
    # Firefox stores the id of a root as its title.
    return text_of(parent.record.get("title")) or parent_id if is_root(parent) else parent.title
