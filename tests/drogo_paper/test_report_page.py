"""The report in a real browser, and its text in both forms, whatever characters a name holds."""

import html
import re

import markdown
import pytest
from markdown_it import MarkdownIt

import needs
from drogo_paper import markup, report, reproduce
from drogo_paper.scope import Answer, Scope, Table

pytestmark = pytest.mark.filterwarnings("ignore")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
NAMES = [
    "a|b", "a*b*c", "_a_", "__init__", "grid_room", "<b>x</b>", "$x$ and $y$", "one ` two ` three",
    "~~gone~~", "R - P~ and P~", "[a](b)", "[a][a]", "[a]: b", r"C:\new\*", "# no heading", "- no item", "1. no item",
    "&lt; is <", "**", "***x", "a\nb",
]  # fmt: skip
KINDS = {
    "CommonMark": MarkdownIt("commonmark").enable(["table", "strikethrough"]).render,
    "Python-Markdown": lambda text: markdown.markdown(text, extensions=["tables"]),
}


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    scope = Scope("library", 2, quick=True)
    answers = {name: reproduce.find(name).answer(scope, lambda job: None)
            for name in ("ring", "environments", "theory")}  # fmt: skip
    wide = Table([f"column {k}" for k in range(30)], [["a rather wide cell"] * 30], "wide")
    answers["odd"] = Answer("<b> & \"quotes\"", "nowhere", "**bold** and `code` <script>x</script>", {}, [wide])  # fmt: skip
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report.as_html(answers, report.facts(scope, []), report.as_pngs(answers)))
    return path


@pytest.fixture(scope="module")
def browser():
    program = needs.program("chromium", "google-chrome")
    with needs.module("playwright.sync_api").sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


def test_loads_without_errors_shows_its_figures_and_its_links_work(browser, page_file):
    page = browser.new_page()
    errors, requests = [], []
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.as_uri())
    assert errors + [url for url in requests if url.startswith("http")] == []
    widths = page.eval_on_selector_all("img", "all => all.map(i => i.complete && i.naturalWidth)")
    assert len(widths) == 2
    assert min(widths) > 300
    assert all(page.locator("img").nth(k).is_visible() for k in range(2))
    assert page.locator("#odd strong").inner_text() == "bold"
    assert page.locator("#odd script").count() == 0
    links = page.locator("nav a")
    assert links.count() == 6
    for k in range(links.count()):
        links.nth(k).click()
        target = page.evaluate("location.hash.slice(1)")
        assert page.evaluate("id => Math.abs(document.getElementById(id).getBoundingClientRect().top) < innerHeight", target)  # fmt: skip


def shown(page):
    """The text that a reader of some HTML sees: code in backticks, bold in asterisks, all else as it is."""
    page = re.sub(r"</?strong>", "**", re.sub(r"</?code>", "`", page))
    return " ".join(html.unescape(re.sub(r"</?[a-z][^>]*>", " ", page)).split())


@pytest.mark.parametrize("render", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("name", [*NAMES, "**bold** and `code|_x_` beside <i> and `x"])
def test_markdown_shows_what_html_shows(name, render):
    assert shown(render(markup.as_markdown(name))) == shown(markup.as_html(name))
    cell = markup.as_markdown(name, in_table=True)
    table = render(f"| head | next |\n| --- | --- |\n| {cell} | end |\n")
    assert table.count("<td") == 2
    assert shown(table) == shown(f"head next {markup.as_html(name)} end")
