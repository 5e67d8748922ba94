"""History, passwords, tabs and whole accounts as files for other programs. Each function yields the parts of a text."""

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .collection import SyncRecord
from .crypto import ClearRecord
from .engines import Tab, Visit, VisitedPage, read_tabs
from .fields import number_of, text_of
from .safe_text import for_markdown, for_url_list, json_text, markdown_link
from .tables import Formats, csv, iso_of, json_lines, json_list


def history_csv(pages: Iterable[VisitedPage], is_raw: bool = False) -> Iterator[str]:
    """Formats visits as CSV, latest first; includes pages without visits."""
    visits = [(visit, page) for page in pages for visit in page.visits or [Visit(0, "")]]
    visits.sort(key=lambda each: -each[0].at_ms)
    rows = ((iso_of(visit.at_ms), visit.kind, page.url, page.title) for visit, page in visits)
    return csv(["visited", "kind", "url", "title"], rows, is_raw)


def history_json(pages: Iterable[VisitedPage]) -> Iterator[str]:
    """Formats pages as JSON, each with its visits."""
    return json_list(
        {
            "url": page.url,
            "title": page.title,
            "visits": [{"at": iso_of(visit.at_ms), "kind": visit.kind} for visit in page.visits],
        }
        for page in pages
    )


# The columns of Firefox's own password export, and the record fields for them.
_LOGIN_COLUMNS = {
    "url": "hostname",
    "username": "username",
    "password": "password",
    "httpRealm": "httpRealm",
    "formActionOrigin": "formSubmitURL",
    "guid": "id",
    "timeCreated": "timeCreated",
    "timeLastUsed": "timeLastUsed",
    "timePasswordChanged": "timePasswordChanged",
}


def passwords_csv(logins: Iterable[ClearRecord]) -> Iterator[str]:
    """Formats passwords as the CSV that Firefox exports and imports, in plain text.

    Always exact: a password may begin like a formula.
    """
    rows = ([_login_cell(login.get(field)) for field in _LOGIN_COLUMNS.values()] for login in logins)
    return csv(list(_LOGIN_COLUMNS), rows, is_raw=True)


def _login_cell(value: object) -> str | float:
    return text_of(value) if isinstance(value, str | bool) or not isinstance(value, int | float) else number_of(value)


def passwords_json(logins: Iterable[ClearRecord]) -> Iterator[str]:
    """Formats passwords as JSON, with all fields of their records."""
    return json_list(logins)


@dataclass(frozen=True)
class DeviceTabs:
    """The open tabs of a device; `synced_ms` is in ms since 1970."""

    device: str
    synced_ms: float
    tabs: list[Tab]


def device_tabs(record: SyncRecord, since_ms: float = 0) -> DeviceTabs:
    """Reads a record of the collection `tabs`; with `since_ms`, only tabs used since."""
    device, tabs = read_tabs(record.clear or {})
    recent = [tab for tab in tabs if tab.last_used_ms >= since_ms]
    return DeviceTabs(device, record.stored.last_modified, recent)


def tabs_json(devices: Iterable[DeviceTabs]) -> Iterator[str]:
    """Formats tabs as JSON, by device."""
    return json_list(
        {
            "device": each.device,
            "synced": iso_of(each.synced_ms),
            "tabs": [{"title": tab.title, "url": tab.url, "used": iso_of(tab.last_used_ms)} for tab in each.tabs],
        }
        for each in devices
    )


def tabs_csv(devices: Iterable[DeviceTabs], is_raw: bool = False) -> Iterator[str]:
    """Formats tabs as CSV."""
    rows = ((each.device, tab.title, tab.url, iso_of(tab.last_used_ms)) for each in devices for tab in each.tabs)
    return csv(["device", "title", "url", "used"], rows, is_raw)


def tab_urls(devices: Iterable[DeviceTabs]) -> Iterator[str]:
    """Lists the URLs of tabs, one per line."""
    return (f"{for_url_list(tab.url)}\n" for each in devices for tab in each.tabs)


def tabs_markdown(devices: Iterable[DeviceTabs]) -> Iterator[str]:
    """Formats tabs as Markdown lists, with a heading for each device."""
    for index, each in enumerate(devices):
        yield f"{'' if index == 0 else chr(10)}# {for_markdown(each.device)}\n\n"
        for tab in each.tabs:
            yield f"- {markdown_link(tab.title, tab.url)}\n"


def everything_json(
    records: Iterable[SyncRecord], incomplete: Mapping[str, str], exported_at: datetime.datetime
) -> Iterator[str]:
    """Formats all decrypted records by collection, the ids of undecryptable records, and the collections that could not be read.

    `incomplete` has the reasons by collection.
    """
    collections: dict[str, list[SyncRecord]] = {}
    unreadable: list[dict[str, object]] = []
    for record in records:
        if record.clear is not None:
            collections.setdefault(record.collection, []).append(record)
            continue
        place = {"collection": record.collection, "id": record.stored.id}
        unreadable.append({**place, "last_modified": record.stored.last_modified, "problem": record.problem})
    yield f'{{"exported":{json_text(iso_of(exported_at.timestamp() * 1000))},\n"collections":{{'
    for index, (collection, found) in enumerate(collections.items()):
        yield f"{'' if index == 0 else ','}\n{json_text(collection)}:"
        yield from json_lines({**(each.clear or {}), "last_modified": each.stored.last_modified} for each in found)
    yield '},\n"unreadable":'
    yield from json_lines(unreadable)
    yield f',\n"incomplete":{json_text(dict(incomplete))}}}\n'


# The formats of each kind of data by name, the default first. The JavaScript package has the same.
HISTORY_FORMATS: Formats = {"csv": history_csv, "json": history_json}
PASSWORD_FORMATS: Formats = {"csv": passwords_csv, "json": passwords_json}
TAB_FORMATS: Formats = {"json": tabs_json, "csv": tabs_csv, "urls": tab_urls, "markdown": tabs_markdown}
EVERYTHING_FORMATS: Formats = {"json": everything_json}
