"""READMEs and source files as HTML that is safe to show.

Invariants: what comes out holds no script, no style, no form, no element that loads something from elsewhere, and no
class but those that colour code; a link leads to http, https, mail or a file of the same release, and nowhere else.
"""

from __future__ import annotations

import posixpath
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_by_name, get_lexer_for_filename
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

LONGEST = 200_000
"""Characters of a README that are rendered; above, it is shown as it is written."""

_TAGS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "ul", "ol", "li", "blockquote", "pre", "code", "span"),
    *("strong", "em", "b", "i", "s", "del", "kbd", "sub", "sup", "a", "table", "thead", "tbody", "tr", "th", "td"),
    *("details", "summary", "dl", "dt", "dd"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "th": {"align"}, "td": {"align"}, "ol": {"start"}}
_CLASSES = {"span": {name for name in STANDARD_TYPES.values() if name}, "pre": {"hl"}}
_SCHEMES = {"http", "https", "mailto"}


def readme(text: str, base: str) -> Markup:
    """A README. A link to a file of the package leads to `base` + the file's path."""
    if len(text) > LONGEST:
        return Markup("<pre>{}</pre>").format(text)
    drawn = _reader().render(text)
    clean = nh3.clean(
        drawn,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        url_schemes=_SCHEMES,
        attribute_filter=lambda tag, name, value: _address(value, base) if (tag, name) == ("a", "href") else value,
        link_rel="nofollow noopener noreferrer",
    )
    return Markup(clean)


def source(text: str, name: str) -> list[Markup]:
    """The lines of a file, coloured by what its name says it is. An unknown kind is plain text."""
    try:
        lexer = get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False, ensurenl=False)
    if len(text) > LONGEST:
        return [escape(line) for line in text.split("\n")]
    drawn = highlight(text, lexer, HtmlFormatter(nowrap=True))
    return [Markup(line) for line in drawn.removesuffix("\n").split("\n")]


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": True, "linkify": False, "highlight": _code})
    reader.enable(["table", "strikethrough"])
    reader.add_render_rule("image", _picture)
    return reader


def _code(text: str, language: str, _: str) -> str:
    """A block of code. Without a language that is known, markdown-it escapes it as it is."""
    try:
        lexer = get_lexer_by_name(language) if language else None
    except ClassNotFound:
        lexer = None
    return "" if lexer is None else f'<pre class="hl">{highlight(text, lexer, HtmlFormatter(nowrap=True))}</pre>'


def _picture(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    """A picture as a link: a page loads nothing from elsewhere, and readers are not counted by others."""
    token = tokens[index]
    address = str(token.attrs.get("src", ""))
    return f'<a href="{escape(address)}">{escape(token.content or "picture")}</a>'


def _address(value: str, base: str) -> str | None:
    """Where a link leads: elsewhere as it says, within the package to the file's page, None if it is neither."""
    try:
        parts = urlsplit(value)
    except ValueError:
        return None
    if parts.scheme in _SCHEMES:
        return value
    if parts.scheme or parts.netloc or value.startswith(("/", "\\")):
        return None
    if not parts.path:
        return f"#{quote(parts.fragment)}" if parts.fragment else None
    path = posixpath.normpath(parts.path)
    return None if path.startswith("..") else base + quote(path)
