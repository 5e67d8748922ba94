"""Makes texts safe for where they are shown: titles and addresses come from web sites."""

import json
import re
from urllib.parse import quote

from .fields import text_of

# Control characters, C1 included, and those that change the direction of the text around them.
_UNSAFE = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROL = "\x00-\x1f\x7f-\x9f"


def printable(text: str) -> str:
    """For a terminal, which interprets control characters. Keeps line breaks."""
    return re.sub(f"(?:(?!\n)[{_UNSAFE}])+", " ", text.replace("\r\n", "\n"))


def printable_line(text: str) -> str:
    """The same in a single line."""
    return printable(text).replace("\n", " ")


def for_spreadsheet(text: str) -> str:
    """For a cell of a spreadsheet, which evaluates a text that begins like a formula: an apostrophe before it makes it text.

    Removes NUL, at which some programs stop.
    """
    return re.sub("^(?=[=+\\-@\t\r\n＝＋－＠])", "'", text.replace("\0", ""))


def for_html(text: str) -> str:
    """For HTML, which can't contain control characters, on one line because many programs parse lines of the file that browsers import."""
    names = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
    return re.sub('[&<>"]', lambda char: names[char[0]], re.sub(f"[{_CONTROL}]+", " ", text))


def for_markdown(text: str) -> str:
    """For Markdown, on one line: no markup, no image, no entity, and no address that would become a link."""
    markup = r"[\\`*_\[\]<>#!~|]|&(?=#?\w{1,32};)|:(?=//)|(?<=\bwww)\."
    return re.sub(markup, r"\\\g<0>", re.sub(f"[\\s{_CONTROL}\ufeff]+", " ", text), flags=re.A | re.I)


def markdown_link(title: str, url: str) -> str:
    """A Markdown link; without a title, it shows its address."""
    address = re.sub(f"[<>\\s{_CONTROL}\ufeff]", lambda char: quote(char[0], safe=""), url)
    address = re.sub(r"\\|&(?=#?\w{1,32};)", r"\\\g<0>", address, flags=re.A)
    return f"[{for_markdown(title or url)}](<{address}>)"


def for_url_list(url: str) -> str:
    """For a list with an address in each line: white space and control characters are encoded."""
    return re.sub(f"[\\s{_CONTROL}\ufeff]", lambda char: quote(char[0], safe=""), url)


def json_text(value: object) -> str:
    """JSON on one line that every parser accepts and every terminal can show.

    Control and direction characters are escaped, and unpaired surrogates, which jq and others reject, become U+FFFD.
    """
    text = text_of(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return re.sub(f"[{_UNSAFE}]", lambda char: f"\\u{ord(char[0]):04x}", text)
