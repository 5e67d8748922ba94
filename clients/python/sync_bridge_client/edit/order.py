"""Which items of a folder kept their order."""

import bisect
from collections.abc import Sequence

from .tree import Tree


def staying_children(shown: Tree, folder: str, children: Sequence[str]) -> set[str]:
    """Most of the children that are in the folder already, and in the same order: the longest increasing run of their places."""
    staying = [each for each in children if each in shown.items and shown.items[each].parent == folder]
    places = [shown.items[each].place for each in staying]
    # By the length of a run: its smallest last place, and the index of that.
    smallest: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for index, place in enumerate(places):
        length = bisect.bisect_left(smallest, place)
        previous.append(ends[length - 1] if length > 0 else -1)
        smallest[length : length + 1] = [place]
        ends[length : length + 1] = [index]
    found: set[str] = set()
    index = ends[-1] if ends else -1
    while index >= 0:
        found.add(staying[index])
        index = previous[index]
    return found
