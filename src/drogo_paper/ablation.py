"""The jobs of figures 7 and 8: as in the paper, a search in the largest world chooses the step size
and penalty of each objective, which then runs in all worlds."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drogo_paper import fits, recipes
from drogo_paper.engines.job import Job
from drogo_paper.engines.store import Record
from drogo_paper.scope import LAM, TRANSITIONS, WORLDS, Get, Scope

VERSION = 1
INTENDED = "gdo_intended"
"""`gdo` with the mean that the paper intends (`drogo_paper.recipes`)."""
PRINTED = ("gdo", "log_gdo", "natural_gdo", "drogo")
SEARCHED = "grid-room"
STEP_SIZES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3)
PENALTIES = (0.1, 0.5, 1.0, 2.0)
"""The paper's grid."""
FAST_STEP_SIZES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
TRUTH = "transition"
"""The eigenvector that the paper's text defines."""


@dataclass(frozen=True)
class Ablation:
    """An ablation, by its name among the questions."""

    name: str
    title: str
    source: str
    claim: str
    input: str
    preset: str | None
    """The preset, or None for that of the scope."""
    objectives: tuple[str, ...]
    updates: int
    """The updates of a run, and of a search unless it has its own number."""
    search_updates: int | None
    most_seeds: int
    search_seeds: int
    quick_updates: int

    @property
    def is_table(self) -> bool:
        return self.input == "state"

    def preset_in(self, scope: Scope) -> str:
        return self.preset or scope.preset

    def step_sizes(self, scope: Scope) -> tuple[float, ...]:
        """Returns the paper's step sizes or, with the fast preset, some around that of it."""
        sizes = STEP_SIZES if self.preset_in(scope) == "paper" else FAST_STEP_SIZES
        return sizes[1::2] if scope.quick else sizes

    def overrides(self, scope: Scope, searching: bool) -> dict[str, Any]:
        if scope.quick:
            return {"updates": self.quick_updates}
        if self.preset is None and scope.preset == "paper":
            return {}
        return {"updates": (self.search_updates if searching else None) or self.updates}

    def updates_in(self, scope: Scope, searching: bool) -> int:
        usual = recipes.UPDATES[self.preset_in(scope)]
        return self.overrides(scope, searching).get("updates", usual)

    def searches(self, objective: str) -> bool:
        """Returns whether an objective has a setting to search. With a network, drogo has none."""
        return objective != "drogo" or self.is_table


TABULAR = Ablation(
    name="ablation-tabular",
    title="Ablation: the objectives with a table",
    source="Figure 7",
    claim="In the paper all but log_gdo do.",
    input="state",
    preset="paper",  # cheap enough in any scope
    objectives=("gdo", INTENDED, "log_gdo", "natural_gdo", "drogo"),
    updates=40_000,
    search_updates=None,
    most_seeds=3,
    search_seeds=2,
    quick_updates=4000,
)
NETWORK = Ablation(
    name="ablation-network",
    title="Ablation: the objectives with a network",
    source="Figure 8",
    claim="In the paper only drogo does.",
    input="coordinates",
    preset=None,
    objectives=PRINTED,
    updates=3000,
    search_updates=None,
    most_seeds=10,
    search_seeds=2,
    quick_updates=300,
)
NETWORK_PAPER = replace(
    NETWORK,
    name="ablation-network-paper",
    title="Ablation: the objectives with a network and the paper's optimiser",
    preset="paper",
    objectives=TABULAR.objectives,
    updates=20_000,
    search_updates=2000,
    most_seeds=2,
    search_seeds=1,
)


def settings(
    scope: Scope, kind: Ablation, world: str, objective: str, searching: bool
) -> dict[str, Any]:
    return {
        "world": world, "input": kind.input, "preset": kind.preset_in(scope),
        "seeds": min(kind.search_seeds if searching else kind.most_seeds, scope.seeds),
        "lam": LAM, "transitions": TRANSITIONS, "objective": objective,
        "overrides": kind.overrides(scope, searching),
    }  # fmt: skip


def search_job(scope: Scope, kind: Ablation, objective: str) -> Job:
    penalties = list(PENALTIES[1:3] if scope.quick else PENALTIES)
    grid = {"step_size": list(kind.step_sizes(scope))}
    grid |= {} if objective == "drogo" else {"penalty": penalties}
    chosen = settings(scope, kind, SEARCHED, objective, True)
    label = f"search {objective}, {kind.name}, {SEARCHED}"
    return Job("drogo_paper.fits:search", {**chosen, "grid": grid}, label, 200.0, VERSION)


def scores(record: Record) -> np.ndarray:
    """Returns the mean cosine over seeds of every point of a search, with -1 for NaN."""
    last = record.arrays[f"cosine_{TRUTH}"][:, -1, :]
    return np.where(np.isfinite(last), last, -1.0).mean(axis=1)


def point(record: Record, k: int) -> dict[str, float]:
    """Returns the k-th setting of a search."""
    return dict(zip(record.facts["grid"], record.facts["points"][k], strict=True))


def best_setting(scope: Scope, kind: Ablation, objective: str, get: Get) -> dict[str, float] | None:
    """Returns the setting with the highest mean cosine; None until the search is done."""
    if not kind.searches(objective):
        return {}
    record = get(search_job(scope, kind, objective))
    return None if record is None else point(record, int(scores(record).argmax()))


def final_job(
    scope: Scope, kind: Ablation, world: str, objective: str, best: dict[str, float]
) -> Job:
    chosen = settings(scope, kind, world, objective, False)
    grid = {name: [value] for name, value in best.items()}
    if not grid:
        grid = {"step_size": [recipes.STEP_SIZES[kind.preset_in(scope)]]}
    label = f"{objective}, {kind.name}, {world}"
    seconds = 60.0 * fits.SIZE[world]
    return Job("drogo_paper.fits:search", {**chosen, "grid": grid}, label, seconds, VERSION)


def ablation_jobs(scope: Scope, get: Get, kind: Ablation) -> list[Job]:
    """Returns the searches, and the jobs in all worlds for the searches that are done."""
    wanted = [search_job(scope, kind, name) for name in kind.objectives if kind.searches(name)]
    for objective in kind.objectives:
        best = best_setting(scope, kind, objective, get)
        if best is not None:
            wanted += [final_job(scope, kind, world, objective, best) for world in WORLDS]
    return wanted
