"""Texts of a report as HTML and as Markdown. `**bold**` and `code` between backticks are marked;
everything else means itself, so that a name may hold any character."""

import html
import re
from collections.abc import Callable

MARKS = re.compile(r"`([^`\s](?:[^`\n]*[^`\s])?)`|\*\*([^*\s](?:[^*\n]*[^*\s])?)\*\*")
BACKSLASHED = re.compile(r"[\\`*]|\](?=[(\[])|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning in Markdown. An underscore inside a word has none, nor has a bracket
without another part of a link behind it."""
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "$": "&#36;", "~": "&#126;"}
"""Characters with a meaning in some kinds of Markdown, which do not all know backslashes."""
LINE_START = re.compile(r"^(\s*\d*)([-+#=.)[])")
"""Beginnings that make a line a heading, an item of a list, or the address of a link."""


def as_html(text: str) -> str:
    """Returns a text as HTML."""
    return _converted(
        text,
        html.escape,
        lambda strong: f"<strong>{html.escape(strong)}</strong>",
        lambda code: f"<code>{html.escape(code)}</code>",
    )


def as_markdown(text: str, *, in_table: bool = False) -> str:
    """Returns a text as one line of Markdown. In a table, bars have priority over code."""

    def coded(code: str) -> str:
        return f"<code>{_literal(code)}</code>" if in_table and "|" in code else f"`{code}`"

    bold: Callable[[str], str] = lambda strong: f"**{_literal(strong)}**"  # noqa: E731
    line = _converted(text.replace("\n", " "), _literal, bold, coded)
    return line if in_table else LINE_START.sub(r"\1\\\2", line)


def _converted(text: str, *forms: Callable[[str], str]) -> str:
    """Converts literal, bold and code parts of a text, each with its function."""
    literal, bold, code = forms
    parts, end = [], 0
    for mark in MARKS.finditer(text):
        inside, strong = mark.groups()
        parts += [literal(text[end : mark.start()]), bold(strong) if strong else code(inside)]
        end = mark.end()
    return "".join([*parts, literal(text[end:])])


def _literal(text: str) -> str:
    text = "".join(ENTITIES.get(character, character) for character in text)
    return BACKSLASHED.sub(lambda mark: "\\" + mark.group(), text)
