"""`fit_spectrum` and `sweep_spectrum`: from transitions to the leading eigenvectors of a
representation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from drogo.config import Config, configure
from drogo.data import DefaultPolicy, Transitions, under
from drogo.data.default import unseen_pairs
from drogo.device import to_device
from drogo.errors import ArgumentError, check_choice, check_number, check_whole
from drogo.exact import MATRICES, Spectrum
from drogo.learn.arguments import Seeds, grid_points, own_parts, report_divergence, seed_list
from drogo.learn.build import choose
from drogo.learn.checkpoint import Progress
from drogo.learn.identity import data_digest, describe
from drogo.learn.learner import Learner, State
from drogo.learn.objectives import Numbers
from drogo.learn.plan import Plan
from drogo.learn.prepare import prepare_lanes, take, warn_of_mixed_states
from drogo.learn.spectrum.judge import SpectrumJudge
from drogo.learn.spectrum.objectives import SEVERAL, AbstractSeveral
from drogo.learn.spectrum.problem import (
    evenly,
    solve,
    with_rows_of_terminals,
    without_unknown,
)
from drogo.learn.spectrum.result import Eigenvectors, mixed
from drogo.learn.train import Callback, Training, lost_at, train
from drogo.requests import versions

SWEPT = ("lam", "step_size", "penalty", "target_norm")
MOST_VECTORS = 1000
LARGEST_EXPONENT = 20.0
"""The largest -r / lam: the matrix of the default representation has exp(-r / lam) on its diagonal,
and is learned no better than its largest entry allows."""
PACE = 1e-3
"""By how much the multipliers of `allo` move in an update, whatever the step size is. Those of a
table, which is trained with larger steps, would overshoot."""
UNUSED = {"target_rate": 1.0, "terminal_fraction": 0.0, "emphasis": 0.0, "direct": False}
"""Settings of the presets that several vectors have no use for, as they are switched off."""
NO_EFFECT = ("cap", "ceiling", "rescale", "scaled", "tolerance", "weigh_actions")
"""Settings that several vectors never look at. Converged is what `drogo.learn.spectrum.judge` calls
so, whatever tolerance a single vector would have."""
ADAPTED = {"leak": 0.1}
WHERE_STATES_REPEAT = {"updates": 20_000}
WITH_A_NETWORK = {"step_size": 3e-3}
ON_IMAGES = {"network": "mlp"}
"""What several vectors change of the presets.

- Without a leak, some seeds stood still: an image that no unit responds to is learned no better.
- Vectors whose eigenvalues are nearly equal take many updates, others stop early.
- An MLP on the pixels that change learns in a few thousand updates what the CNN has not learned in
  as many, each of which takes several times as long.
"""
LEAST_PENALTY, TIMES_THE_EIGENVALUES = 0.3, 2.0
"""A penalty holds the vectors in place if it is above their eigenvalues and the differences between
these (Gomez et al. 2024, Theorem 1). One that is far above them hides these differences, by which
the vectors are told apart, and takes several times as many updates."""


def fit_spectrum(
    data: Transitions,
    vectors: int = 8,
    *,
    objective: Any = "allo",
    matrix: str = "laplacian",
    discount: float = 0.99,
    preset: str = "auto",
    seeds: Seeds = 1,
    default_policy: DefaultPolicy | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Eigenvectors:
    """Learns the leading eigenvectors of a representation from transitions alone.

    Where states repeat, each of them counts the same, however often it was seen. Terminal states
    absorb; those of the successor representation have a zero row. Transitions need not lead to a
    terminal state.

    Args:
        data: The transitions. Their rewards matter for the matrix "default" only.
        vectors: How many.
        objective: "gdo", "ggdo" or "allo", or a subclass of `drogo.learn.AbstractSeveral`.
        matrix: "laplacian" for `D - P~`, "successor" for `I - discount P~`, or "default" for
            `R - P~`, as in `exact.spectrum`.
        discount: The discount factor, for "successor" only.
        preset: "fast" or "stable", or "auto" for the one of these that suits the data.
        seeds: How many seeds (0, 1, ...), or which.
        default_policy: The policy that the vectors belong to, as in `fit`.
        checkpoint: As in `fit`.
        callbacks: As in `fit`.
        **settings: Fields of `drogo.Config` that replace the preset's, as in `fit`. `penalty` is
            the weight b, of "default" relative to the mean diagonal of the matrix; where states
            repeat, by default twice the largest eigenvalue of what the data describe and at least
            0.3, divided by `target_norm`. That is the mean square c of a vector's entries.

    Returns:
        The learned vectors of each seed. Seeds that diverged are reported by a warning and by their
        status.

    Raises:
        Diverged: All seeds diverged.
    """
    (result,) = _fit(
        data, [{}], vectors, objective, matrix, discount, preset, seeds, default_policy,
        checkpoint, callbacks, settings,
    )  # fmt: skip
    report_divergence(result.seeds, result.diverged_at, "Try a smaller step_size.")
    return result


def sweep_spectrum(
    data: Transitions,
    vectors: int = 8,
    *,
    grid: Mapping[str, Sequence[float]],
    objective: Any = "allo",
    matrix: str = "laplacian",
    discount: float = 0.99,
    preset: str = "auto",
    seeds: Seeds = 1,
    default_policy: DefaultPolicy | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> dict[tuple[float, ...], Eigenvectors]:
    """Trains every seed at every point of a grid of settings, in one compiled program.

    Args:
        data: As in `fit_spectrum`.
        vectors: As in `fit_spectrum`.
        grid: The values of each swept setting, by name: lam, step_size, penalty or target_norm.
        objective: As in `fit_spectrum`.
        matrix: As in `fit_spectrum`.
        discount: As in `fit_spectrum`.
        preset: As in `fit_spectrum`.
        seeds: As in `fit_spectrum`.
        default_policy: As in `fit_spectrum`.
        checkpoint: As in `fit_spectrum`.
        callbacks: As in `fit`; the arrays of a report have a number for each point and seed.
        **settings: As in `fit_spectrum`.

    Returns:
        The vectors at each point. The keys are the points, in the order of the names in `grid`.
        Seeds that diverged are reported by their status alone.
    """
    points = grid_points(grid, SWEPT)
    if "lam" in grid and matrix != "default":
        raise ArgumentError(f"the matrix {matrix!r} has no lam, so that a sweep over it is idle.")
    if "step_size" in grid and "optimiser" in own_parts(settings)[0]:
        raise ArgumentError(
            "an optimiser of your own has its own step size, which a sweep does not vary."
        )
    named = [dict(zip(grid, point, strict=True)) for point in points]
    results = _fit(
        data, named, vectors, objective, matrix, discount, preset, seeds, default_policy,
        checkpoint, callbacks, settings,
    )  # fmt: skip
    return dict(zip(points, results, strict=True))


def _fit(
    data: Transitions,
    points: list[dict[str, float]],
    vectors: int,
    objective: Any,
    matrix: str,
    discount: float,
    preset: str,
    seeds: Seeds,
    default_policy: DefaultPolicy | None,
    checkpoint: str | Path | None,
    callbacks: Sequence[Callback],
    settings: dict[str, Any],
) -> list[Eigenvectors]:
    """Learns the vectors of every seed at every point of a grid."""
    listed = seed_list(seeds)
    vectors = check_whole("vectors", vectors, 1, MOST_VECTORS)
    check_choice("matrix", matrix, MATRICES)
    discount = check_number("discount", discount)
    if not 0 < discount < 1:
        raise ArgumentError(f"discount is {discount}; it must lie in (0, 1).")
    own, named = own_parts(settings)
    configs = [_configure(data, preset, {**named, **point}, matrix) for point in points]
    make = _factory(objective)
    data, notes = under(data, default_policy)
    if default_policy is not None:
        own["default_policy"] = default_policy
    digest = data_digest(data)
    warn_of_mixed_states(data, stacklevel=4)
    complete = unseen_pairs(data) == 0
    shown = with_rows_of_terminals(data, configs[0].delta)
    if shown.repeats:
        data, lost = without_unknown(data)
        notes += [f"{lost} observations were never left, and are left out."] if lost else []
        check_whole("vectors", vectors, 1, len(data.observations))
        shown = with_rows_of_terminals(data, configs[0].delta)
    shown = evenly(shown) if shown.repeats else shown
    chosen = "penalty" not in {*named, *points[0]}
    parts = (make, vectors, matrix, discount, own, chosen, complete)
    training, states = _prepare(shown, configs, listed, *parts)
    judge = training.judge
    assert isinstance(judge, SpectrumJudge)
    progress = train(training, Progress(states), checkpoint, callbacks)
    described = objective if isinstance(objective, str) else describe(objective)
    whole = {
        "objective": described,
        "matrix": matrix,
        "discount": discount,
        "seeds": tuple(listed),
        "observations": np.asarray(shown.observations[judge.plan.kept]),
        "neighbours": _among(data.neighbours, judge.plan.kept),
        "complete": complete,
        "notes": tuple(notes),
        "data_digest": digest,
        "own": {name: describe(part) for name, part in own.items()},
        "versions": versions(),
    }
    return _results(judge, progress, whole)


def _results(judge: SpectrumJudge, progress: Progress, whole: dict[str, Any]) -> list[Eigenvectors]:
    """Returns what was learned at each point of a grid.

    Args:
        judge: What measured the lanes.
        progress: The end of training.
        whole: The fields of a result that all points share.
    """
    lost, of_point = lost_at(progress), len(whole["seeds"])
    status = np.where(lost >= 0, "diverged", judge.status(progress.last_row)).tolist()
    energy, products = judge.products(progress.states.params)
    found = judge.vectors(progress.states.params, judge.plan.kept)
    rows = {name: np.stack(part) for name, part in progress.history.items()}
    k = found.shape[1]
    empty = np.full((of_point, k), np.nan)
    results = []
    for first in range(0, len(found), of_point):
        lanes = slice(first, first + of_point)
        result = Eigenvectors(
            vectors=found[lanes],
            eigenvalues=empty,
            cosines=empty,
            overlap=empty[:, 0],
            status=tuple(status[lanes]),
            diverged_at=tuple(None if at < 0 else int(at) for at in lost[lanes]),
            history={name: row if row.ndim == 1 else row[:, lanes] for name, row in rows.items()},
            config=judge.configs[first],
            mixing=np.tile(np.eye(k), (of_point, 1, 1)),
            energy=energy[lanes],
            products=products[lanes],
            solution=None if judge.solution is None else judge.solution[first],
            learner=judge.learner.with_numbers(take(judge.numbers, first)),
            state=take(progress.states, lanes),
            **whole,
        )
        results.append(mixed(result, result.mixing))
    return results


def _configure(data: Transitions, preset: str, named: Mapping[str, Any], matrix: str) -> Config:
    """Returns the settings, without those that several vectors have no use for."""
    unused = sorted({*UNUSED, *NO_EFFECT} & set(named))
    if unused or preset in ("direct", "paper"):
        what = f"{unused[0]}=" if unused else f"preset={preset!r}"
        raise ArgumentError(f"{what} has no meaning for several vectors; leave it out.")
    table = data.observations
    adapted: dict[str, Any] = ADAPTED | (WHERE_STATES_REPEAT if data.repeats else {})
    adapted |= WITH_A_NETWORK if data.repeats and table.ndim > 1 else {}
    adapted |= ON_IMAGES if table.ndim == 4 else {}
    config = configure(data, preset, {**adapted, **named, "objective": "gdo"})
    lowest = float(data.reward.min())
    if matrix == "default" and -lowest / config.lam > LARGEST_EXPONENT:
        raise ArgumentError(
            f"exp(-r / lam) is too large: the lowest reward is {lowest:g}, and lam is "
            f"{config.lam:g}. Use lam of at least {-lowest / LARGEST_EXPONENT:.3g}."
        )
    network = choose(data.observations) if config.network == "auto" else config.network
    return replace(config, **UNUSED, network=network)


def _factory(objective: Any) -> Any:
    if isinstance(objective, str):
        check_choice("objective", objective, tuple(SEVERAL))
        return SEVERAL[objective]
    other = isinstance(objective, type) and not issubclass(objective, AbstractSeveral)
    if other or not callable(objective):
        raise ArgumentError(
            f"objective is {objective!r}; give a name ({', '.join(SEVERAL)}) or a subclass of "
            "drogo.learn.AbstractSeveral."
        )
    return objective


def _prepare(
    data: Transitions,
    configs: list[Config],
    seeds: list[int],
    make: Any,
    vectors: int,
    matrix: str,
    discount: float,
    own: Mapping[str, Any],
    choose_penalty: bool,
    complete: bool,
) -> tuple[Training, State]:
    """Puts together what training needs, as `prepare` does for one vector."""
    lams = {config.lam for config in configs}
    sizes = {lam: _size(data, lam) if matrix == "default" else 1.0 for lam in lams}
    solutions: dict[float, Spectrum] = {}
    if data.repeats:
        solutions = {lam: solve(data, matrix, vectors, lam, discount) for lam in lams}
    if choose_penalty and data.repeats:
        relative = {lam: solutions[lam].eigenvalues[:vectors] / sizes[lam] for lam in lams}
        configs = [
            replace(config, penalty=_penalty(relative[config.lam], config.target_norm))
            for config in configs
        ]
    paced = not {"optimiser", "schedule"} & set(own)
    numbers = [_numbers(config, sizes[config.lam], paced) for config in configs]
    objectives = [make(one, vectors, matrix, discount) for one in numbers]
    first = objectives[0]
    if not isinstance(first, AbstractSeveral):
        raise ArgumentError(
            f"objective made a {type(first).__name__}; it must make a drogo.learn.AbstractSeveral."
        )
    objectives = [replace(one, bounded=not data.repeats) for one in objectives]
    first = objectives[0]
    if not all(eqx.tree_equal(one.with_numbers(first.numbers), first) for one in objectives):
        raise ArgumentError(
            "objective made objectives that differ in more than their numbers, which a sweep does "
            "not vary. Call fit for each point."
        )

    def make_judge(plan: Plan, learner: Learner, numbers: Numbers, lanes: list[Config]) -> Any:
        known = [solutions[lane.lam] for lane in lanes] if plan.repeats else None
        return SpectrumJudge(data, plan, learner, first, numbers, lanes, known, complete)

    identity = {"spectrum": [describe(make), vectors, matrix, discount]}
    return prepare_lanes(data, configs, seeds, objectives, own, make_judge, identity)


def _size(data: Transitions, lam: float) -> float:
    """Returns the mean diagonal of the default representation's matrix, with which its eigenvalues
    grow."""
    return float(np.average(np.exp(-data.reward / lam), weights=data.weight))


def _numbers(config: Config, size: float, paced: bool) -> Numbers:
    """Returns the numbers of the objective: the penalty of a matrix of some size, and the pace of
    multipliers, which an optimiser or a schedule of the user's own decides itself."""
    columns = {
        "lam": config.lam,
        "penalty": size * config.penalty,
        "target_norm": config.target_norm,
        "scale": PACE / config.step_size if paced else 1.0,
    }
    return Numbers(**{name: to_device(value, jnp.float32) for name, value in columns.items()})


def _penalty(eigenvalues: np.ndarray, target_norm: float) -> float:
    """Returns a penalty that holds vectors in place and lets their eigenvalues tell them apart.

    A vector of `gdo` has the norm c - eigenvalue / (2 b). Three digits are the same on every
    machine, so that a checkpoint of one is continued on another.
    """
    largest = max(float(np.abs(eigenvalues).max()), float(np.ptp(eigenvalues)))
    return float(f"{max(LEAST_PENALTY, TIMES_THE_EIGENVALUES * largest) / target_norm:.3g}")


def _among(pairs: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Returns the pairs of observations that are both kept, by their places among these."""
    both = np.isin(pairs, kept).all(axis=1)
    return np.searchsorted(kept, pairs[both])
