"""Bookmarks as files for other programs. Each function yields the parts of a text.

A tree that is deeper than DEEPEST_LEVEL is written flat below that.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .bookmarks import BookmarkNode, Placed, flattened, missing_root
from .safe_text import for_html, for_markdown, for_url_list, json_text, markdown_link
from .tables import Formats, csv, iso_of

# Deeper folders are not indented further, or the file would grow with the square of the depth.
_DEEPEST_INDENT = 20


def bookmarks_html(tops: Iterable[BookmarkNode]) -> Iterator[str]:
    """Formats bookmarks as the HTML file that every browser imports.

    Like in Firefox's own file, the contents of the menu come first and in no folder, because Firefox imports the file into the menu.
    """
    tops = list(tops)
    yield "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n"
    yield '<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">\n'
    yield "<TITLE>Bookmarks</TITLE>\n<H1>Bookmarks Menu</H1>\n\n<DL><p>\n"
    menu = next((top for top in tops if top.record.stored.id == "menu"), None)
    inside = menu.children if menu else []
    yield from _html_lines([*inside, *(top for top in tops if top is not menu)])
    yield "</DL>\n"


_ROOT_ROLES = {"toolbar": "PERSONAL_TOOLBAR_FOLDER", "unfiled": "UNFILED_BOOKMARKS_FOLDER"}


def _html_lines(tops: list[BookmarkNode]) -> Iterator[str]:
    opened = 0
    for placed in flattened(tops):
        node, level = placed.node, placed.level
        bookmark = node.bookmark
        for inner in range(opened, level - 1, -1):
            yield _indented(inner, "</DL><p>")
        opened = min(opened, level - 1)
        date = {"ADD_DATE": str(int(bookmark.added_ms // 1000))} if bookmark.added_ms > 0 else {}
        if node.kind == "separator":
            yield _indented(level, "<HR>")
        elif node.kind == "folder":
            role = _ROOT_ROLES.get(node.record.stored.id)
            yield _indented(level, f"<DT>{_element('H3', {**date, **({role: 'true'} if role else {})}, node.title)}")
            yield _indented(level, "<DL><p>")
            opened = level
        elif bookmark.url != "":
            # A feed is stated like in the files of earlier versions of Firefox.
            address = {"HREF": bookmark.url}
            if node.clear.get("type") == "livemark":
                address = {"FEEDURL": bookmark.url, "HREF": bookmark.site_url or bookmark.url}
            tags = {"TAGS": ",".join(bookmark.tags)} if bookmark.tags else {}
            keyword = {"SHORTCUTURL": bookmark.keyword} if bookmark.keyword else {}
            yield _indented(level, f"<DT>{_element('A', {**address, **date, **tags, **keyword}, node.title or bookmark.url)}")
    for inner in range(opened, 0, -1):
        yield _indented(inner, "</DL><p>")


def _indented(level: int, line: str) -> str:
    return f"{'    ' * min(level, _DEEPEST_INDENT)}{line}\n"


def _element(name: str, attributes: dict[str, str], text: str) -> str:
    written = "".join(f' {key}="{for_html(value)}"' for key, value in attributes.items())
    return f"<{name}{written}>{for_html(text)}</{name}>"


def bookmarks_json(tops: Iterable[BookmarkNode]) -> Iterator[str]:
    """Formats bookmarks as nested JSON lists, in folder order, with one bookmark on each line."""
    return _nested_json(flattened(tops), _plain_bookmark)


def _plain_bookmark(placed: Placed) -> dict[str, Any]:
    bookmark = placed.node.bookmark
    texts = {
        "title": placed.node.title,
        "url": bookmark.url,
        "keyword": bookmark.keyword,
        "description": bookmark.description,
        "added": iso_of(bookmark.added_ms),
    }
    return {
        "id": placed.node.record.stored.id,
        "type": placed.node.kind,
        **{name: text for name, text in texts.items() if text != ""},
        **({"tags": bookmark.tags} if bookmark.tags else {}),
    }


def _nested_json(entries: Iterable[Placed], fields: Callable[[Placed], dict[str, Any]]) -> Iterator[str]:
    """Formats entries as nested lists: each has its fields, and a folder the entries below it as `children`."""
    opened = 0
    is_first = True
    yield "["
    for entry in entries:
        is_after_folder = entry.level <= opened
        if is_after_folder:
            yield "\n" + "]}" * (opened - entry.level + 1)
        yield "\n" if is_first and not is_after_folder else ",\n"
        text = json_text(fields(entry))
        is_first = entry.node.kind == "folder"
        opened = entry.level if is_first else entry.level - 1
        yield f'{text[:-1]},"children":[' if is_first else text
    yield "\n" + "]}" * opened + "]\n"


# The ids that Firefox has for its root folders.
_ROOT_GUIDS = {
    "menu": {"guid": "menu________", "root": "bookmarksMenuFolder"},
    "toolbar": {"guid": "toolbar_____", "root": "toolbarFolder"},
    "unfiled": {"guid": "unfiled_____", "root": "unfiledBookmarksFolder"},
    "mobile": {"guid": "mobile______", "root": "mobileFolder"},
}
_PLACE_TYPES = {
    "bookmark": "text/x-moz-place",
    "folder": "text/x-moz-place-container",
    "separator": "text/x-moz-place-separator",
}


def bookmarks_firefox_json(tops: Iterable[BookmarkNode]) -> Iterator[str]:
    """Formats bookmarks as the JSON that Firefox's Restore reads, which replaces all bookmarks.

    What is outside of the root folders goes to Other Bookmarks.
    """
    tops = list(tops)
    roots = [top for top in tops if top.record.stored.id in _ROOT_GUIDS and top.kind == "folder"]
    others = [top for top in tops if top not in roots]
    if others:
        index = next((index for index, top in enumerate(roots) if top.record.stored.id == "unfiled"), len(roots))
        unfiled = roots[index] if index < len(roots) else missing_root("unfiled")
        roots[index : index + 1] = [dataclasses.replace(unfiled, children=[*unfiled.children, *others])]
    folder = _PLACE_TYPES["folder"]
    yield f'{{"guid":"root________","title":"","index":0,"type":"{folder}","root":"placesRoot","children":'
    entries = (entry for entry in flattened(roots) if entry.node.kind != "bookmark" or entry.node.bookmark.url != "")
    yield from _nested_json(entries, _firefox_bookmark)
    yield "}\n"


def _firefox_bookmark(placed: Placed) -> dict[str, Any]:
    node, bookmark = placed.node, placed.node.bookmark
    stored = node.record.stored
    added = {"dateAdded": int(bookmark.added_ms) * 1000} if bookmark.added_ms > 0 else {}
    modified = {"lastModified": stored.last_modified * 1000} if added and stored.last_modified >= bookmark.added_ms else {}
    return {
        **({"guid": stored.id} if re.fullmatch("[A-Za-z0-9_-]{12}", stored.id) else {}),
        **(_ROOT_GUIDS.get(stored.id, {}) if node.kind == "folder" else {}),
        **({"title": node.title} if node.kind != "separator" else {}),
        "index": placed.index,
        **added,
        **modified,
        "type": _PLACE_TYPES[node.kind],
        **({"uri": bookmark.url} if node.kind == "bookmark" else {}),
        **({"tags": ",".join(bookmark.tags)} if bookmark.tags else {}),
        **({"keyword": bookmark.keyword} if bookmark.keyword else {}),
    }


def bookmarks_csv(tops: Iterable[BookmarkNode], is_raw: bool = False) -> Iterator[str]:
    """Formats bookmarks as CSV with their folder paths, without folders and separators."""
    rows = (
        (
            each.node.bookmark.url,
            each.node.title,
            each.path,
            ",".join(each.node.bookmark.tags),
            each.node.bookmark.keyword,
            iso_of(each.node.bookmark.added_ms),
        )
        for each in _links_of(tops)
    )
    return csv(["url", "title", "folder", "tags", "keyword", "added"], rows, is_raw)


def bookmark_urls(tops: Iterable[BookmarkNode]) -> Iterator[str]:
    """Lists the URLs, one per line, without duplicates."""
    return (f"{url}\n" for url in dict.fromkeys(for_url_list(each.node.bookmark.url) for each in _links_of(tops)))


def bookmarks_markdown(tops: Iterable[BookmarkNode]) -> Iterator[str]:
    """Formats bookmarks as nested Markdown lists, with a heading for each top-level folder."""
    is_first = True
    for placed in flattened(tops):
        node, level = placed.node, placed.level
        indent = "  " * min(max(0, level - 2), _DEEPEST_INDENT)
        if node.kind == "folder" and level == 1:
            yield f"{'' if is_first else chr(10)}# {for_markdown(node.title)}\n\n"
        elif node.kind == "folder":
            yield f"{indent}- **{for_markdown(node.title)}**\n"
        elif node.bookmark.url != "":
            yield f"{indent}- {markdown_link(node.title, node.bookmark.url)}\n"
        else:
            continue
        is_first = False


def _links_of(tops: Iterable[BookmarkNode]) -> list[Placed]:
    return [each for each in flattened(tops) if each.node.bookmark.url != ""]


# The formats by name, the default first. The JavaScript package has the same.
BOOKMARK_FORMATS: Formats = {
    "html": bookmarks_html,
    "json": bookmarks_json,
    "firefox-json": bookmarks_firefox_json,
    "csv": bookmarks_csv,
    "urls": bookmark_urls,
    "markdown": bookmarks_markdown,
}
