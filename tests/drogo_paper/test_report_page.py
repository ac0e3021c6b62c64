"""The report in a real browser."""

import pytest

import needs
from drogo_paper import questions, report
from drogo_paper.scope import Answer, Scope, Table

pytestmark = pytest.mark.filterwarnings("ignore")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    scope = Scope("fast", 2, quick=True)
    made = {name: questions.find(name).answer(scope, lambda job: None)
            for name in ("ring", "environments", "theory")}  # fmt: skip
    wide = Table([f"column {k}" for k in range(30)], [["a rather wide cell"] * 30], "wide")
    made["odd"] = Answer("<b> & \"quotes\"", "nowhere", "**bold** and `code` <script>x</script>", {}, [wide])  # fmt: skip
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report.as_html(made, report.facts(scope, []), report.drawn(made)))
    return path


@pytest.fixture(scope="module")
def browser():
    program = needs.program("chromium", "google-chrome")
    with needs.module("playwright.sync_api").sync_playwright() as started:
        made = started.chromium.launch(executable_path=program, args=FLAGS)
        yield made
        made.close()


def open_page(browser, path, **options):
    page = browser.new_page(**options)
    wrong = []
    page.on(
        "console", lambda message: wrong.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request",
        lambda request: wrong.append(request.url) if request.url.startswith("http") else None,
    )
    page.goto(path.as_uri())
    return page, wrong


def test_loads_without_errors_and_shows_its_figures(browser, page_file):
    page, wrong = open_page(browser, page_file)
    assert wrong == []
    widths = page.eval_on_selector_all("img", "all => all.map(i => i.complete && i.naturalWidth)")
    assert len(widths) == 2
    assert min(widths) > 300
    assert all(page.locator("img").nth(k).is_visible() for k in range(2))
    assert page.locator("#odd strong").inner_text() == "bold"
    assert page.locator("#odd script").count() == 0


def test_links_work(browser, page_file):
    page, _ = open_page(browser, page_file)
    links = page.locator("nav a")
    assert links.count() == 6
    for k in range(links.count()):
        links.nth(k).click()
        target = page.evaluate("location.hash.slice(1)")
        assert page.evaluate("id => Math.abs(document.getElementById(id).getBoundingClientRect().top) < innerHeight", target)  # fmt: skip


@pytest.mark.slow
def test_fits_a_phone(browser, page_file):
    page, _ = open_page(browser, page_file, viewport={"width": 375, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_can_be_read_in_the_dark(browser, page_file, scheme):
    page, _ = open_page(browser, page_file, color_scheme=scheme)

    def brightness(what):
        colour = page.evaluate(f"getComputedStyle(document.body).{what}")
        return sum(int(part) for part in colour.strip("rgb()").split(",")[:3]) / 3

    ink, paper = brightness("color"), brightness("backgroundColor")
    assert abs(ink - paper) > 150
    assert (paper < 60) == (scheme == "dark")
