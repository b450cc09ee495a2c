"""A chart with its caption and the table of its numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of a chart, as text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: int | None = None
    """How many rows there are, where `rows` are only the first of them."""


MOST_ROWS = 1000
"""How many rows the table behind a chart shows; the page's machine form has them all."""


def figure(
    title: str, pictures: Sequence[str], *, table: Table, note: str = "", key: Sequence[tuple[str, int]] = ()
) -> str:
    """The figure. One picture serves every width; of two, the first is for wide screens and the second for narrow.

    `key` names the series, each with its colour, where a narrow picture has no room for direct labels.
    """
    caption = escape(title) + (f" <small>{escape(note)}</small>" if note else "")
    if len(pictures) == 1:
        drawn = pictures[0]
    else:
        drawn = f'<div class="wide">{pictures[0]}</div><div class="narrow">{_key(key)}{pictures[1]}</div>'
    return f'<figure class="chart"><figcaption>{caption}</figcaption>{drawn}{_behind(table)}</figure>'


def _key(names: Sequence[tuple[str, int]]) -> str:
    if len(names) < 2:
        return ""
    items = "".join(f'<span class="c{colour}"><i></i>{escape(name)}</span>' for name, colour in names)
    return f'<div class="key">{items}</div>'


def _behind(table: Table) -> str:
    heads = "".join(
        f'<th{"" if index == 0 else " class=num"} scope="col">{escape(name)}</th>'
        for index, name in enumerate(table.columns)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{'' if i == 0 else ' class=num'}>{escape(cell)}</td>" for i, cell in enumerate(row))
        + "</tr>"
        for row in table.rows[:MOST_ROWS]
    )
    left = (table.total or len(table.rows)) - min(len(table.rows), MOST_ROWS)
    more = f"<p>{left:,} more rows are in the page's machine form.</p>" if left > 0 else ""
    return (
        '<details class="behind"><summary>Numbers</summary><div class="scroll" tabindex="0">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}</div></details>"
    )
