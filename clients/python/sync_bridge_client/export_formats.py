"""The formats of exports: the one table of their names and functions. The first format of each kind of data is the default."""

from .bookmark_formats import BOOKMARK_FORMATS
from .record_formats import EVERYTHING_FORMATS, HISTORY_FORMATS, PASSWORD_FORMATS, TAB_FORMATS
from .tables import Formats

EXPORT_FORMATS: dict[str, Formats] = {
    "bookmarks": BOOKMARK_FORMATS,
    "history": HISTORY_FORMATS,
    "passwords": PASSWORD_FORMATS,
    "tabs": TAB_FORMATS,
    "everything": EVERYTHING_FORMATS,
}
