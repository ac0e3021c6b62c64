"""The report: answers as one self-contained page, and as Markdown with figures beside it."""

import base64
import os
import platform
from collections.abc import Mapping, Sequence

from drogo.plot import as_png
from drogo_paper import markup, published
from drogo_paper.ablation import NETWORK_PAPER, TABULAR
from drogo_paper.engines.store import Record
from drogo_paper.scope import Answer, Scope, Table
from drogo_paper.shaping import EVERY

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #ffffff; --soft: #f2f2f2; --line: #ccc;
  --link: #0b5cad; --good: #06603f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #16181b; --soft: #23262b;
  --line: #444; --link: #7cb7ff; --good: #63d0a4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 74rem; padding: 1rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; }
a { color: var(--link); }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1rem; padding: 0; list-style: none; }
.verdict { border-left: 4px solid var(--good); background: var(--soft); padding: .6rem .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; margin: .8rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left;
  white-space: nowrap; }
td.long { white-space: normal; min-width: 12rem; }
th { background: var(--soft); }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
figure { margin: 1rem 0; }
.source, caption { opacity: .75; font-size: .88rem; }
caption { caption-side: bottom; text-align: left; padding-top: .4rem; white-space: normal; }
"""


PAPER = '"DROGO: Default Representation Objective via Graph Optimization" (Tse and Machado, 2026)'


WHOLE = (
    "Reproducing the paper",
    f"The figures and tables of {PAPER}, run again by `drogo reproduce`, with the published "
    "numbers beside the new ones where there are any.",
)
"""The title of a report, and what it shows."""
QUICK = (
    "A quick look at the paper",
    f"The figures and tables of {PAPER} from short runs with few seeds, made by `drogo reproduce "
    "--quick`. They show what the whole report looks like and that everything works. `drogo "
    "reproduce` without --quick compares with the published numbers.",
)
DEVIATIONS = [
    "The paper's text defines its eigenvector by R - P~, but with an absorbing terminal state that "
    "matrix is indefinite, and the loss converges to another vector, `column`. Every cosine names "
    "its vector.",
    "The text prints no number of updates. The protocol of the text makes 40,000, the default of "
    "the authors' code, or fewer where a seed is exact before; that of the code makes 20,000, "
    "30,000, 300,000 and 300,000 in the four worlds, where the axes of its figure end.",
    "Protocol of the code: transitions are whole episodes, numbers are in double precision, and "
    "the ablation with a table is plain gradient descent through all states and actions in order.",
    "In the shaping experiments potentials are divided by their mean step between neighbouring "
    "cells, which the paper's text leaves out; without it its grid over the weight means nothing.",
    f"Returns are drawn every {EVERY} steps. N_OPT is shown as the text defines it and as the "
    "authors' code measures it. Random numbers are shared between methods, seed by seed.",
    "The map of the ring (figure 1) is not printed; ours follows its description.",
    "The ablation with a network has the library's settings: it searches step sizes from 1e-4 to "
    "1e-2 in runs of 3,000 updates with two seeds; the paper's grid is 1e-5 to 1e-3.",
    "The ablation with a network and the paper's optimiser has the paper's grid, but "
    f"{NETWORK_PAPER.most_seeds} seeds and {NETWORK_PAPER.updates:,} updates, and its search "
    f"{NETWORK_PAPER.search_seeds} seed and {NETWORK_PAPER.search_updates:,} updates. The one with "
    f"a table has {TABULAR.most_seeds} seeds.",
    "Proposition 3.2 as printed needs a doubly stochastic P; the objective gdo_intended does not.",
]
"""Deviations of the reproduction from the paper, and their reasons."""

_text, _line = markup.as_html, markup.as_markdown


def without(absent: Sequence[str]) -> str:
    """Returns a sentence about questions without an answer, if there are any."""
    return f"Not answered, because their runs are missing: {', '.join(absent)}." if absent else ""


def facts(scope: Scope, records: Sequence[Record]) -> dict[str, str]:
    """Returns the settings and the provenance of the runs."""
    seconds = sum(float(record.status["duration"]) for record in records)
    resumed = sum(bool(record.status.get("resumed")) for record in records)
    packages: dict[str, set[str]] = {}
    for record in records:
        for name, number in record.status["versions"].items():
            packages.setdefault(name, set()).add(number)
    cut = f" (of {resumed} resumed runs, only the last part)" if resumed else ""
    machines = sorted({str(record.status["machine"]) for record in records})
    return {
        "protocol": scope.protocol + (" (quick: for a first look only)" if scope.quick else ""),
        "seeds": str(scope.seeds),
        "runs": str(len(records)),
        "computing time of the runs": f"{seconds / 60:.1f} minutes{cut}",
        "machines": ", ".join(machines) or "-",
        "this machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "versions": ", ".join(
            f"{name} {' and '.join(sorted(numbers))}" for name, numbers in packages.items()
        )
        or "-",
    }


def as_pngs(answers: Mapping[str, Answer]) -> dict[str, bytes]:
    """Returns all figures by name, as PNG."""
    figures = (pair for answer in answers.values() for pair in answer.figures.items())
    return {name: as_png(figure, dpi=110) for name, figure in figures}


def as_html(
    answers: Mapping[str, Answer],
    about: Mapping[str, str],
    figures: Mapping[str, bytes],
    absent: Sequence[str] = (),
    above: tuple[str, str] = WHOLE,
) -> str:
    """Returns one HTML page that needs no other file."""
    links = "".join(
        f'<li><a href="#{name}">{_text(a.title)}</a></li>' for name, a in answers.items()
    )
    rows = "".join(
        f"<tr><th>{_text(k)}</th><td class=long>{_text(v)}</td></tr>" for k, v in about.items()
    )
    parts = "".join(_section(name, answer, figures) for name, answer in answers.items())
    listed = "".join(f"<li>{_text(d)}</li>" for d in DEVIATIONS)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>DROGO: {_text(above[0])}</title><link rel="icon" href="data:,">
<style>{STYLE}</style></head>
<body><h1>DROGO: {_text(above[0])}</h1>
<p>{_text(above[1])} {_text(without(absent))}</p>
<nav><ul>{links}<li><a href="#deviations">Deviations</a></li>
<li><a href="#about">Settings</a></li></ul></nav>
<main>{parts}
<section id="deviations"><h2>Deviations from the paper</h2><ul>{listed}</ul></section>
<section id="about"><h2>Settings</h2>
<div class="scroll"><table>{rows}</table></div></section></main>
</body></html>
"""


def _section(name: str, answer: Answer, figures: Mapping[str, bytes]) -> str:
    shown = "".join(
        f'<figure><img alt="{_text(answer.title)}" src="data:image/png;base64,'
        f'{base64.b64encode(figures[figure]).decode()}"></figure>'
        for figure in answer.figures
    )
    tables = "".join(_table(table) for table in answer.tables)
    caption = published.published()["captions"].get(name, "")
    notes = "".join(f"<p>{_text(note)}</p>" for note in answer.notes)
    return (
        f'<section id="{name}"><h2>{_text(answer.title)}</h2>'
        f'<p class="source">In {_text(answer.paper)}: {_text(answer.source)}. {_text(caption)}</p>'
        f'<p class="verdict">{_text(answer.verdict)}</p>{shown}{tables}{notes}</section>'
    )


def _table(table: Table) -> str:
    caption = f"<caption>{_text(table.caption)}</caption>" if table.caption else ""
    head = "".join(f"<th>{_text(cell)}</th>" for cell in table.header)

    def cell(text: str) -> str:
        kind = ' class="long"' if len(text) > 36 else ""
        return f"<td{kind}>{_text(text)}</td>"

    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in table.rows)
    return (
        f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def as_markdown(
    answers: Mapping[str, Answer],
    about: Mapping[str, str],
    figures: str,
    absent: Sequence[str] = (),
    above: tuple[str, str] = WHOLE,
) -> str:
    """Returns Markdown for the docs; `figures` is the directory of the figures."""
    lines = [f"# {_line(above[0])}", "", _line(f"{above[1]} {without(absent)}".strip())]
    for name, answer in answers.items():
        lines += _markdown_section(name, answer, figures)
    lines += ["", "## Deviations from the paper", ""]
    lines += [f"- {_line(deviation)}" for deviation in DEVIATIONS]
    lines += ["", "## Settings", "", "| | |", "|---|---|"]
    lines += [_row([name, value]) for name, value in about.items()]
    return "\n".join(lines) + "\n"


def _markdown_section(name: str, answer: Answer, figures: str) -> list[str]:
    title, caption = _line(answer.title), published.published()["captions"].get(name, "")
    source = f"In {answer.paper}: {answer.source}. {caption}"
    lines = ["", f"## {title}", "", _line(source.strip())]
    lines += ["", _line(answer.verdict)]
    for name in answer.figures:
        lines += ["", f"![{title}]({figures}/{name}.png)"]
    for table in answer.tables:
        lines += ["", _row(table.header), "| " + " | ".join(["---"] * len(table.header)) + " |"]
        lines += [_row(row) for row in table.rows]
        lines += ["", _line(table.caption)] if table.caption else []
    for note in answer.notes:
        lines += ["", _line(note)]
    return lines


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markup.as_markdown(cell, in_table=True) for cell in cells) + " |"
