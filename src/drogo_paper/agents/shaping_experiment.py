"""The experiment on reward shaping: the potential with which Q-learning is optimal soonest."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from drogo.errors import ArgumentError
from drogo.exact import log_column
from drogo.exact.definitions import successor_eigenvector
from drogo.mdp import MDP
from drogo.potential import normalised
from drogo.worlds.grid import GridWorld
from drogo_paper.agents.q_learning import Progress, Runs, q_learning
from drogo_paper.agents.training import Training
from drogo_paper.statistics import Interval, bootstrap_mean

WEIGHTS = (0.25, 0.5, 0.75, 1.0)
STEP_SIZES = (0.1, 0.3, 1.0)
"""The settings of the paper."""


@dataclass(frozen=True, eq=False)
class Grid(Runs):
    """The runs of one method, with a row for each setting and a column for each seed."""

    weight: Float[np.ndarray, " settings"]
    step_size: Float[np.ndarray, " settings"]

    @cached_property
    def chosen(self) -> int:
        """The index of the reported setting: the one with the most optimal seeds, then the lowest
        mean of `steps_to_optimal`, then the highest mean return."""
        unfinished = np.isinf(self.steps_to_optimal).sum(axis=1)
        mean = self.steps_to_optimal.mean(axis=1)
        return int(np.lexsort((-self.returns.mean(axis=(1, 2)), mean, unfinished))[0])


def compare(
    mdp: MDP,
    potentials: Mapping[str, Float[np.ndarray, "seeds states"] | None],
    training: Training,
    *,
    seeds: int,
    progress: Progress | None = None,
) -> dict[str, Grid]:
    """Trains Q-learning with several potentials and all combinations of weights and step sizes. A
    potential has a row for each seed; None is no shaping."""
    settings = []
    for name, potential in potentials.items():
        rows = np.zeros((seeds, mdp.n_states)) if potential is None else potential
        if rows.shape != (seeds, mdp.n_states):
            raise ArgumentError(
                f"potential {name!r} has shape {rows.shape}; expected one row of {mdp.n_states} "
                f"states for each of {seeds} seeds.",
                argument="potentials",
            )
        used = (0.0,) if potential is None else WEIGHTS
        settings += [(name, rows, weight, size) for weight in used for size in STEP_SIZES]
    names, tables, weight, step_size = map(np.array, zip(*settings, strict=True))
    runs = q_learning(
        mdp,
        training,
        potential=np.concatenate(tables),
        weight=np.repeat(weight, seeds),
        step_size=np.repeat(step_size, seeds),
        seed=np.tile(np.arange(seeds), len(settings)),
        progress=progress,
    )
    arrays = {"weight": weight, "step_size": step_size}
    quantities = ["returns", "arrived", "best_return", "low_reward_visits", "q"]
    for quantity in [*quantities, *(["until_final"] if training.every_step else [])]:
        values = getattr(runs, quantity)
        arrays[quantity] = values.reshape(len(settings), seeds, *values.shape[1:])
    return {
        name: Grid(every=runs.every, **{part: rows[names == name] for part, rows in arrays.items()})
        for name in potentials
    }


def greedy_path(
    mdp: MDP, q: Float[np.ndarray, "states actions"], step_limit: int
) -> Int[np.ndarray, " length"]:
    """Follows the first greedy action and its likeliest outcome, from the likeliest start."""
    path = [int(mdp.start.argmax())]
    likeliest = [np.asarray(matrix.argmax(axis=1)).ravel() for matrix in mdp.transitions]
    while not mdp.terminal[path[-1]] and len(path) <= step_limit:
        action = int(q[path[-1]].argmax())
        path.append(int(likeliest[action][path[-1]]))
    return np.array(path)


NONE, SR, SR_DISTANCE, DR_EXACT = "none", "SR", "SR distance", "DR exact"
UNITS = {"steps_to_optimal": (1000, "N_OPT (×10³)"), "low_reward_visits": (100, "N_VISIT (×10²)")}
"""The measured quantities, each with its unit and its name in the table."""


def successor_potential(mdp: MDP, discount: float = 0.99) -> Float[np.ndarray, " states"]:
    """Computes the paper's baseline, which is highest at the terminal states."""
    return -successor_eigenvector(mdp, discount)


def successor_distance(mdp: MDP, discount: float = 0.99) -> Float[np.ndarray, " states"]:
    """Computes minus the squared distance to the nearest terminal state in `e` (Wu et al. 2019)."""
    e = successor_eigenvector(mdp, discount)
    return -((e[:, None] - e[mdp.terminal][None, :]) ** 2).min(axis=1)


def potentials(
    world: GridWorld,
    learned: Mapping[str, Float[np.ndarray, "seeds states"]],
    *,
    seeds: int,
    lam: float,
    discount: float,
    terminal: str = "keep",
) -> dict[str, Float[np.ndarray, "seeds states"] | None]:
    """Returns the normalised potentials of all methods, a row for each seed; None is no shaping.
    Fewer learned vectors than seeds are used in turn; `terminal="zero"` zeroes terminal states."""
    vectors = {
        SR: successor_potential(world.mdp, discount)[None],
        SR_DISTANCE: successor_distance(world.mdp, discount)[None],
        DR_EXACT: log_column(world.mdp, lam)[None],
        **learned,
    }
    methods: dict[str, Float[np.ndarray, "seeds states"] | None] = {NONE: None}
    for name, rows in vectors.items():
        phi = normalised(rows, world.mdp.neighbours)[np.arange(seeds) % len(rows)]
        methods[name] = np.where(world.terminal, 0.0, phi) if terminal == "zero" else phi
    return methods


@dataclass(frozen=True)
class Row:
    """One method in one world, with the setting that is reported."""

    weight: float
    step_size: float
    steps_to_optimal: Interval
    low_reward_visits: Interval
    unfinished: int
    """The number of seeds whose last evaluations are not optimal."""
    apart: Mapping[str, bool]
    """For each quantity, whether the interval lies below that of the SR without overlap."""


def summarise(grids: Mapping[str, Grid]) -> dict[str, Row]:
    """Summarises the reported setting of each method in the result of `compare` over its seeds."""
    low_of_sr = dict.fromkeys(UNITS, np.inf)
    if SR in grids:
        low_of_sr = {name: interval.low for name, interval in _intervals(grids[SR]).items()}
    rows = {}
    for name, grid in grids.items():
        intervals = _intervals(grid)
        rows[name] = Row(
            weight=float(grid.weight[grid.chosen]),
            step_size=float(grid.step_size[grid.chosen]),
            unfinished=int(np.isinf(grid.steps_to_optimal[grid.chosen]).sum()),
            apart={q: interval.high < low_of_sr[q] < np.inf for q, interval in intervals.items()},
            **intervals,
        )
    return rows


def _intervals(grid: Grid) -> dict[str, Interval]:
    """Returns the mean of each quantity over the seeds of the reported setting."""
    seeds = {name: getattr(grid, name)[grid.chosen].astype(np.float64) for name in UNITS}
    return {name: bootstrap_mean(row, np.random.default_rng(0)) for name, row in seeds.items()}


def cell(interval: Interval, unit: int) -> str:
    """Returns an interval in some unit as text, `1.37 [1.33, 1.41]`, or a dash if infinite."""
    if not np.isfinite(interval.mean):
        return "-"
    mean, low, high = (number / unit for number in interval)
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"
