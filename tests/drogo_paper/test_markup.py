"""Both forms of a report show the same text, whatever characters a name holds."""

import html
import re

import markdown
import pytest
from markdown_it import MarkdownIt

from drogo_paper import markup

NAMES = [
    "a|b", "a*b*c", "_a_", "__init__", "grid_room", "<b>x</b>", "$x$ and $y$", "one ` two ` three",
    "~~gone~~", "R - P~ and P~", "[a](b)", "[a][a]", "[a]: b", r"C:\new\*", "# no heading", "- no item", "1. no item",
    "&lt; is <", "**", "***x", "a\nb",
]  # fmt: skip
KINDS = {
    "CommonMark": MarkdownIt("commonmark").enable(["table", "strikethrough"]).render,
    "Python-Markdown": lambda text: markdown.markdown(text, extensions=["tables"]),
}


def shown(page):
    """The text that a reader of some HTML sees: code in backticks, bold in asterisks, all else as it is."""
    page = re.sub(r"</?strong>", "**", re.sub(r"</?code>", "`", page))
    text = html.unescape(re.sub(r"</?[a-z][^>]*>", " ", page))
    return " ".join(text.split())


@pytest.mark.parametrize("render", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("name", [*NAMES, "**bold** and `code|_x_` beside <i> and `x"])
def test_markdown_shows_what_html_shows(name, render):
    assert shown(render(markup.as_markdown(name))) == shown(markup.as_html(name))
    cell = markup.as_markdown(name, in_table=True)
    table = render(f"| head | next |\n| --- | --- |\n| {cell} | end |\n")
    assert table.count("<td") == 2
    assert shown(table) == shown(f"head next {markup.as_html(name)} end")
