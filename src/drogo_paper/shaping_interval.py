"""The effect of the interval between evaluations on the steps until the return is optimal.

The steps until the return is optimal are a multiple of the interval. A published mean that is no
multiple of 100 and has an interval of width 0 needs evaluations that are closer together.
"""

from __future__ import annotations

from collections.abc import Mapping

from drogo.engines.job import Job
from drogo_paper import fits, published, shaping
from drogo_paper.agents.shaping_experiment import Row, cell, summarise
from drogo_paper.scope import Answer, Get, Scope, Table
from drogo_paper.shaping import EVERY

WORLD, CLOSE = "four-rooms", 20
KINDS = ("coordinates",)
"""The input whose published number needs a closer interval."""
METHOD = "DR coordinates"
QUANTITY, UNIT = "steps_to_optimal", 1000


def jobs(scope: Scope, get: Get) -> list[Job]:
    both = [shaping.job(scope, WORLD, get, every, KINDS) for every in (EVERY, CLOSE)]
    fitted = [fits.job(scope, WORLD, kind) for kind in KINDS]
    return fitted + [job for job in both if job is not None]


def answer(scope: Scope, get: Get) -> Answer:
    rows = {
        every: summarise(shaping.grids_of(scope, WORLD, get, every, KINDS))
        for every in (EVERY, CLOSE)
    }
    lines, inside = [], dict.fromkeys(rows, 0)
    for method in rows[EVERY]:
        theirs = published.shaping(QUANTITY, WORLD, method)
        if theirs is None:
            continue
        for every, of_methods in rows.items():
            ours = of_methods[method].steps_to_optimal
            verdict = published.verdict(ours, theirs)
            inside[every] += "inside" in verdict
            line = [method, str(every), cell(ours, UNIT), cell(theirs, UNIT), verdict]
            lines.append(line[:3] if scope.quick else line)
    header = ["method", "evaluated every", "N_OPT (×10³) here", "paper", "verdict"]
    return Answer(
        f"The interval between evaluations, in {WORLD}",
        "Table 1",
        f"{_found(rows)} {scope.against_paper(_published(inside, len(lines) // 2))}".strip(),
        {},
        [Table(header[:3] if scope.quick else header, lines, _caption(scope))],
        numbers={f"inside, every {every}": count for every, count in inside.items()},
    )


def _found(rows: Mapping[int, Mapping[str, Row]]) -> str:
    """Returns the DR's numbers with each interval."""
    parts = [
        f"{cell(of_methods[METHOD].steps_to_optimal, UNIT)} if evaluated every {every} steps"
        for every, of_methods in rows.items()
    ]
    return f"N_OPT of {METHOD} is {' and '.join(parts)}, in thousands."


def _published(inside: Mapping[int, int], total: int) -> str:
    theirs = published.shaping(QUANTITY, WORLD, METHOD)
    assert theirs is not None
    counts = " and ".join(f"{count} of {total} every {every}" for every, count in inside.items())
    return (
        f"The paper prints {cell(theirs, UNIT)}: an interval of width 0 around a number that is no "
        f"multiple of {EVERY} steps cannot come from evaluations every {EVERY} steps. Numbers "
        f"inside the published intervals: {counts} steps."
    )


def _caption(scope: Scope) -> str:
    return (
        f"{shaping.steps_in(scope):,} training steps, {scope.seeds} seeds; the agents of the two "
        "intervals draw other random numbers. With each interval, the weight and step size with "
        "the lowest mean are reported."
    )
