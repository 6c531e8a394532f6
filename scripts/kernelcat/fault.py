"""A fault of a document: where it is, what was found, what was expected; each in one line for people."""

import json
from dataclasses import dataclass

WIDTH = 80  # characters of a found value that are shown


@dataclass(frozen=True, order=True)
class Fault:
    """One fault: `pointer` is the RFC 6901 JSON pointer of the value ("" is the document), `found` a short picture of
    what stands there, `expected` what should.
    """

    pointer: str
    found: str
    expected: str

    def __str__(self) -> str:
        place = one_line(self.pointer, 1000) or "top level"
        return f"{place}: expected {printable(self.expected)}, found {printable(self.found)}"


def pointer(*places: str | int) -> str:
    """The RFC 6901 JSON pointer of these keys and indices: pointer("a/b", 0) → "/a~1b/0"."""
    return "".join("/" + str(place).replace("~", "~0").replace("/", "~1") for place in places)


def shown(value: object, width: int = WIDTH) -> str:
    """`value` in at most `width` characters of JSON, cut with "…". Big values cost no more than small ones."""
    text = "".join(_pieces(value, [width]))
    return text if len(text) <= width else text[: width - 1] + "…"


def printable(text: str) -> str:
    """`text` on one line: line ends, other control characters and lone surrogates as \\u escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def one_line(text: str, width: int = WIDTH) -> str:
    """`text` on one line, cut with "…" to at most `width` characters."""
    text = printable(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def _pieces(value: object, room: list[int]):
    """JSON piece by piece until the room (a counter that the recursion shares) is used up."""
    if isinstance(value, dict | list):
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        yield opening
        room[0] -= 1
        for number, item in enumerate(value):
            if room[0] <= 0:
                return
            room[0] -= 2
            yield ", " if number else ""
            if isinstance(value, dict):
                yield from _pieces(item, room)
                yield ": "
                item = value[item]
            yield from _pieces(item, room)
        yield closing
        return
    if isinstance(value, str):
        text = json.dumps(value[: max(room[0], 1)], ensure_ascii=False)
        text = text[:-1] + "…" if len(value) > max(room[0], 1) else text
    elif isinstance(value, bool | None | float):
        text = json.dumps(value)
    elif isinstance(value, int):
        text = str(value) if -(10**WIDTH) < value < 10**WIDTH else "an integer of more than 80 digits"
    else:
        text = f"a Python {type(value).__name__}"
    room[0] -= len(text)
    yield printable(text)
