"""The jobs of figures 7 and 8: as in the paper, a search in the largest world chooses the step size
and penalty of each objective, which then runs in all worlds."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drogo_paper import fits, recipes
from drogo_paper.engines.job import Job
from drogo_paper.engines.store import Record
from drogo_paper.scope import LAM, TRANSITIONS, WORLDS, Get, Scope

VERSION = 2
INTENDED = "gdo_intended"
"""`gdo` with the mean that the paper intends (`drogo_paper.recipes`)."""
PRINTED = ("gdo", "log_gdo", "natural_gdo", "drogo")
SEARCHED = "grid-room"
STEP_SIZES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3)
PENALTIES = (0.1, 0.5, 1.0, 2.0)
"""The paper's grid."""
RECOMMENDED_STEP_SIZES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
STEP_SIZE_OF_CODE, PASSES, QUICK_PASSES = 0.003, 50_000, 1000
"""The step size of ablation_tabular.py, and its passes."""


@dataclass(frozen=True)
class Ablation:
    """An ablation, by its name among the questions."""

    name: str
    title: str
    source: str
    claim: str
    input: str
    settings: str
    """The settings of `recipes.recipe`."""
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

    def step_sizes(self, scope: Scope) -> tuple[float, ...]:
        """Returns the paper's step sizes, those around the recommended one, or that of the code."""
        if self.descends(scope):
            return (STEP_SIZE_OF_CODE,)
        sizes = STEP_SIZES if self.settings == "paper" else RECOMMENDED_STEP_SIZES
        return sizes[1::2] if scope.quick else sizes

    def descends(self, scope: Scope) -> bool:
        """Returns whether its runs are those of `plain_descent`."""
        return self.is_table and scope.reading.plain_descent

    def seeds(self, scope: Scope, searching: bool) -> int:
        if self.descends(scope):
            return scope.seeds
        return min(self.search_seeds if searching else self.most_seeds, scope.seeds)

    def updates_in(self, scope: Scope, searching: bool) -> int:
        """Returns the number of updates, or of passes through all states and actions."""
        if self.descends(scope):
            return QUICK_PASSES if scope.quick else PASSES
        if scope.quick:
            return self.quick_updates
        return (self.search_updates if searching else None) or self.updates

    def searches(self, objective: str) -> bool:
        """Returns whether an objective has a setting to search. With a network, drogo has none."""
        return objective != "drogo" or self.is_table

    def objectives_in(self, scope: Scope) -> tuple[str, ...]:
        """Returns its objectives: those of the code are the printed ones."""
        printed = self.descends(scope)
        return tuple(name for name in self.objectives if name != INTENDED or not printed)


TABULAR = Ablation(
    name="ablation-tabular",
    title="Ablation: the objectives with a table",
    source="Figure 7",
    claim="In the paper all but log_gdo do.",
    input="state",
    settings="paper",
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
    settings="recommended",
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
    settings="paper",
    objectives=TABULAR.objectives,
    updates=20_000,
    search_updates=2000,
    most_seeds=2,
    search_seeds=1,
)


def job(
    scope: Scope, kind: Ablation, world: str, objective: str, grid: dict[str, list[float]],
    searching: bool,
) -> Job:  # fmt: skip
    updates, reading = kind.updates_in(scope, searching), scope.reading
    settings: dict[str, Any] = {
        "world": world, "objective": objective, "seeds": kind.seeds(scope, searching), "lam": LAM,
        "grid": grid,
    }  # fmt: skip
    label = f"{'search ' * searching}{objective}, {kind.name}, {world}"
    if kind.descends(scope):
        settings |= {"passes": updates}
        return Job("drogo_paper.plain_descent:search", settings, label, 60.0, VERSION)
    settings |= {
        "input": kind.input, "settings": kind.settings, "transitions": TRANSITIONS,
        "episodes": reading.episodes, "double": reading.double, "overrides": {"updates": updates},
    }  # fmt: skip
    seconds = 200.0 if searching else 60.0 * fits.SIZE[world]
    return Job("drogo_paper.fits:search", settings, label, seconds, VERSION)


def search_job(scope: Scope, kind: Ablation, objective: str) -> Job:
    penalties = list(PENALTIES[1:3] if scope.quick else PENALTIES)
    grid = {"step_size": list(kind.step_sizes(scope))}
    grid |= {} if objective == "drogo" else {"penalty": penalties}
    return job(scope, kind, SEARCHED, objective, grid, True)


def scores(record: Record, truth: str) -> np.ndarray:
    """Returns the mean cosine over seeds of every point of a search, with -1 for NaN."""
    last = record.arrays[f"cosine_{truth}"][:, -1, :]
    return np.where(np.isfinite(last), last, -1.0).mean(axis=1)


def point(record: Record, k: int) -> dict[str, float]:
    """Returns the k-th setting of a search."""
    return dict(zip(record.facts["grid"], record.facts["points"][k], strict=True))


def best_setting(scope: Scope, kind: Ablation, objective: str, get: Get) -> dict[str, float] | None:
    """Returns the setting with the highest mean cosine; None until the search is done."""
    if not kind.searches(objective):
        return {}
    record = get(search_job(scope, kind, objective))
    return (
        None if record is None else point(record, int(scores(record, scope.reading.truth).argmax()))
    )


def final_job(
    scope: Scope, kind: Ablation, world: str, objective: str, best: dict[str, float]
) -> Job:
    grid = {name: [value] for name, value in best.items()}
    grid = grid or {"step_size": [recipes.STEP_SIZES[kind.settings]]}
    return job(scope, kind, world, objective, grid, False)


def ablation_jobs(scope: Scope, get: Get, kind: Ablation) -> list[Job]:
    """Returns the searches, and the jobs in all worlds for the searches that are done."""
    objectives = kind.objectives_in(scope)
    wanted = [search_job(scope, kind, name) for name in objectives if kind.searches(name)]
    for objective in objectives:
        best = best_setting(scope, kind, objective, get)
        if best is not None:
            wanted += [final_job(scope, kind, world, objective, best) for world in WORLDS]
    return wanted
