"""The formats of exports: the one table of their names and functions. The first format of each kind of data is the default."""

from collections.abc import Callable, Iterator

from .bookmark_formats import (
    bookmark_urls,
    bookmarks_csv,
    bookmarks_firefox_json,
    bookmarks_html,
    bookmarks_json,
    bookmarks_markdown,
)
from .record_formats import (
    everything_json,
    history_csv,
    history_json,
    passwords_csv,
    passwords_json,
    tab_urls,
    tabs_csv,
    tabs_json,
    tabs_markdown,
)

EXPORT_FORMATS: dict[str, dict[str, Callable[..., Iterator[str]]]] = {
    "bookmarks": {
        "html": bookmarks_html,
        "json": bookmarks_json,
        "firefox-json": bookmarks_firefox_json,
        "csv": bookmarks_csv,
        "urls": bookmark_urls,
        "markdown": bookmarks_markdown,
    },
    "history": {"csv": history_csv, "json": history_json},
    "passwords": {"csv": passwords_csv, "json": passwords_json},
    "tabs": {"json": tabs_json, "csv": tabs_csv, "urls": tab_urls, "markdown": tabs_markdown},
    "everything": {"json": everything_json},
}
