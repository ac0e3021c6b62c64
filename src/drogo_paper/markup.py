"""Texts of a report as HTML and as Markdown.

In a text, `**bold**` and `code` between backticks are marked; everything else means itself. So a
name may hold any character, and both forms of the report show it as it is.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

MARKS = re.compile(r"`([^`\s](?:[^`\n]*[^`\s])?)`|\*\*([^*\s](?:[^*\n]*[^*\s])?)\*\*")
BACKSLASHED = re.compile(r"[\\`*]|\](?=[(\[])|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown takes for a mark. An underscore inside a word is none, nor is a bracket without
another part of a link behind it."""
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "$": "&#36;", "~": "&#126;"}
"""What some kinds of Markdown take for a mark, not all of which know a backslash before it."""
LINE_START = re.compile(r"^(\s*\d*)([-+#=.)[])")
"""What may make a line a heading, an item of a list, or the address of a link."""


def as_html(text: str) -> str:
    """Returns a text as HTML."""
    return _converted(
        text,
        html.escape,
        lambda strong: f"<strong>{html.escape(strong)}</strong>",
        lambda code: f"<code>{html.escape(code)}</code>",
    )


def as_markdown(text: str, *, in_table: bool = False) -> str:
    """Returns a text as one line of Markdown.

    Args:
        text: The text.
        in_table: Whether the line is a cell of a table, whose bars are found before its code.
    """

    def coded(code: str) -> str:
        return f"<code>{_literal(code)}</code>" if in_table and "|" in code else f"`{code}`"

    line = _converted(
        text.replace("\n", " "),
        _literal,
        lambda strong: f"**{_literal(strong)}**",
        coded,
    )
    return line if in_table else LINE_START.sub(r"\1\\\2", line)


def _converted(text: str, *forms: Callable[[str], str]) -> str:
    """Converts what is not marked, what is bold, and what is code, each in its own way."""
    literal, bold, code = forms
    parts, end = [], 0
    for mark in MARKS.finditer(text):
        inside, strong = mark.groups()
        parts += [literal(text[end : mark.start()]), bold(strong) if strong else code(inside)]
        end = mark.end()
    return "".join([*parts, literal(text[end:])])


def _literal(text: str) -> str:
    text = "".join(ENTITIES.get(character, character) for character in text)
    return BACKSLASHED.sub(lambda found: "\\" + found.group(), text)
