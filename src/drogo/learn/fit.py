"""`fit` and `sweep`: from transitions to the logarithm of the principal eigenvector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np

from drogo.config import Config, configure
from drogo.data import DefaultPolicy, Transitions, under
from drogo.errors import ArgumentError
from drogo.learn.arguments import Seeds, grid_points, own_parts, report_divergence, seed_list
from drogo.learn.checkpoint import Progress, history_rows
from drogo.learn.judge import Judge
from drogo.learn.learner import State
from drogo.learn.objectives import OBJECTIVES
from drogo.learn.prepare import Truth, make_objective, prepare
from drogo.learn.result import LogEigenvector, make_results
from drogo.learn.spectrum.fit import fit_spectrum, sweep_spectrum
from drogo.learn.spectrum.objectives import SEVERAL
from drogo.learn.spectrum.result import Eigenvectors
from drogo.learn.train import Callback, Training, train

SWEPT = ("lam", "step_size", "penalty", "target_norm", "cap", "tolerance")


@overload
def fit(
    data: Transitions,
    *,
    vectors: None = None,
    preset: str = "auto",
    seeds: Seeds = 1,
    truth: Truth | None = None,
    default_policy: DefaultPolicy | None = None,
    continue_from: LogEigenvector | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> LogEigenvector: ...


@overload
def fit(
    data: Transitions,
    *,
    vectors: int,
    preset: str = "auto",
    seeds: Seeds = 1,
    default_policy: DefaultPolicy | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Eigenvectors: ...


def fit(
    data: Transitions,
    *,
    vectors: int | None = None,
    preset: str = "auto",
    seeds: Seeds = 1,
    truth: Truth | None = None,
    default_policy: DefaultPolicy | None = None,
    continue_from: LogEigenvector | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> LogEigenvector | Eigenvectors:
    """Learns log e from transitions alone, or several eigenvectors.

    Args:
        data: The transitions.
        vectors: How many eigenvectors to learn, as `fit_spectrum` does; `objective` is then "gdo",
            "ggdo" or "allo". By default, the logarithm of the principal one alone.
        preset: "direct" to solve the problem that the data describe exactly and fit the network to
            the solution, where states repeat; "stable" for all other worlds; "auto" for the one of
            these that suits the data; "fast" for the paper's method in small worlds, sped up; or
            "paper" for exactly the paper's settings.
        seeds: How many seeds (0, 1, ...), or which.
        truth: Known vectors over `data.observations` to compare with during training, by name. A
            vector may be given as a function of lam.
        default_policy: The policy that the vector belongs to: one probability for each action, or a
            function `default_policy(observations, actions)` that returns the probability of each
            action of a batch (of vectors: the density). By default that of the environment's MDP,
            if the data were collected from it, and otherwise uniform. Data of another policy are
            corrected, if they have actions.
        continue_from: A fit to continue. `updates` is the total, including those already made.
        checkpoint: A file that is written every few seconds. If it exists and belongs to this very
            fit, training continues from it to the very same result.
        callbacks: Functions that are called with a `Report` at each logged update. A callback that
            returns False stops the fit, which returns the result so far.
        **settings: Fields of `drogo.Config` that replace the preset's. Beyond their names,
            `network` takes an `equinox.Module` from a batch of observations to one number each, or
            a function from a JAX key to such a module; `optimiser` any optax transformation
            (with its own step size); `step_size` an optax schedule; and `objective` a subclass of
            `drogo.learn.AbstractObjective`, or a function from `Numbers` to such an objective.

    Returns:
        The learned vectors, one for each seed, or several if `vectors` is given. Seeds that
        diverged are reported by a warning and by their status.

    Raises:
        Diverged: All seeds diverged.
    """
    if vectors is not None:
        if truth is not None or continue_from is not None:
            raise ArgumentError("a fit of several vectors takes no truth= and no continue_from=.")
        return fit_spectrum(
            data,
            vectors,
            preset=preset,
            seeds=seeds,
            default_policy=default_policy,
            checkpoint=checkpoint,
            callbacks=callbacks,
            **settings,
        )
    _check_single(settings)
    own, settings = own_parts(settings)
    config = configure(data, preset, settings)
    data, notes = _under(data, default_policy, config, own)
    own |= {} if default_policy is None else {"default_policy": default_policy}
    inputs = None if continue_from is None else continue_from.learner.inputs
    training, states = prepare(data, [config], seed_list(seeds), truth, own, inputs)
    progress = Progress(states)
    if continue_from is not None:
        progress = _continued(continue_from, states, training)
    progress = train(training, progress, checkpoint, callbacks)
    (result,) = make_results(training, progress, notes)
    remedy = (
        "An output or a gradient became infinite: try cap='auto', a smaller step_size, a larger "
        "lam, or preset='stable' if it is another one."
    )
    report_divergence(result.seeds, result.diverged_at, remedy)
    return result


@overload
def sweep(
    data: Transitions,
    *,
    grid: Mapping[str, Sequence[float]],
    vectors: None = None,
    preset: str = "auto",
    seeds: Seeds = 1,
    truth: Truth | None = None,
    default_policy: DefaultPolicy | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> dict[tuple[float, ...], LogEigenvector]: ...


@overload
def sweep(
    data: Transitions,
    *,
    grid: Mapping[str, Sequence[float]],
    vectors: int,
    preset: str = "auto",
    seeds: Seeds = 1,
    default_policy: DefaultPolicy | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> dict[tuple[float, ...], Eigenvectors]: ...


def sweep(
    data: Transitions,
    *,
    grid: Mapping[str, Sequence[float]],
    vectors: int | None = None,
    preset: str = "auto",
    seeds: Seeds = 1,
    truth: Truth | None = None,
    default_policy: DefaultPolicy | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> dict[tuple[float, ...], LogEigenvector] | dict[tuple[float, ...], Eigenvectors]:
    """Trains every seed at every point of a grid of settings, in one compiled program.

    Args:
        data: The transitions.
        grid: The values of each swept setting, by name: lam, step_size, penalty, target_norm, cap
            or tolerance (of several vectors without the last two).
        vectors: As in `fit`.
        preset: As in `fit`.
        seeds: As in `fit`.
        truth: As in `fit`.
        default_policy: As in `fit`.
        checkpoint: As in `fit`.
        callbacks: As in `fit`; the arrays of a report have a number for each point and seed.
        **settings: As in `fit`.

    Returns:
        The result at each point. The keys are the points, in the order of the names in `grid`.
        Seeds that diverged are reported by their status alone.
    """
    if vectors is not None:
        if truth is not None:
            raise ArgumentError("a sweep of several vectors takes no truth=.")
        return sweep_spectrum(
            data,
            vectors,
            grid=grid,
            preset=preset,
            seeds=seeds,
            default_policy=default_policy,
            checkpoint=checkpoint,
            callbacks=callbacks,
            **settings,
        )
    _check_single(settings)
    points = grid_points(grid, SWEPT)
    own, settings = own_parts(settings)
    if "step_size" in grid and "optimiser" in own:
        raise ArgumentError(
            "an optimiser of your own has its own step size, which a sweep does not vary."
        )
    if "lam" in grid and any(not callable(vector) for vector in (truth or {}).values()):
        raise ArgumentError(
            "a sweep over lam has another truth for every lam; give truths as functions of lam."
        )
    if "lam" in grid and preset == "auto" and data.repeats:
        preset = "fast"  # each lam has a solution of its own, to which `direct` would fit
    config = configure(data, preset, settings)
    if config.direct and "lam" in grid:
        raise ArgumentError(
            "each lam has a solution of its own, to which direct=True would fit the network. Sweep "
            "over lam with preset='fast' or 'stable', or call fit for each lam."
        )
    data, notes = _under(data, default_policy, config, own)
    own |= {} if default_policy is None else {"default_policy": default_policy}
    configs = [replace(config, **dict(zip(grid, point, strict=True))) for point in points]
    training, states = prepare(data, configs, seed_list(seeds), truth, own)
    unused = {"penalty", "target_norm"} & set(grid)
    if unused and not training.judge.learner.objective.needs_second_batch:
        raise ArgumentError(
            f"objective {config.objective!r} has no {' and no '.join(sorted(unused))}, so a sweep "
            "over it would train the same networks again and again."
        )
    progress = train(training, Progress(states), checkpoint, callbacks)
    return dict(zip(points, make_results(training, progress, notes), strict=True))


def _check_single(settings: Mapping[str, Any]) -> None:
    """Raises an error if an objective of several vectors is meant to learn a single one."""
    name = settings.get("objective")
    if isinstance(name, str) and name in SEVERAL and name not in OBJECTIVES:
        raise ArgumentError(
            f"objective {name!r} is for several vectors.",
            remedy=f"Say how many: objective={name!r}, vectors=8.",
        )


def _under(
    data: Transitions, policy: DefaultPolicy | None, config: Config, own: Mapping[str, Any]
) -> tuple[Transitions, list[str]]:
    """Weighs transitions like the default policy's, as far as the settings demand it."""
    by_action = make_objective(config, own).per_action
    return under(data, policy, by_action=by_action, always=config.weigh_actions)


def _continued(start: LogEigenvector, states: State, training: Training) -> Progress:
    """Returns the progress of a fit that continues another one."""
    if start.updates >= training.updates:
        raise ArgumentError(
            f"continue_from has {start.updates} updates already. updates is the number in all, and "
            f"must be larger than that; it is {training.updates}."
        )
    assert isinstance(training.judge, Judge)
    compared = {name.removeprefix("cosine_") for name in start.history if "cosine_" in name}
    config, own = training.judge.configs[0], training.identity["own"]
    agree = {
        "seeds": (list(start.seeds), training.seeds),
        "truths": (sorted(compared), sorted(training.judge.truths)),
        "objective": (start.config.objective, config.objective),
        "class of the objective": (start.own.get("objective"), own.get("objective")),
    }
    for name, (before, now) in agree.items():
        if before != now:
            raise ArgumentError(
                f"continue_from was made with the {name} {before}, and this fit with {now}. They "
                "must agree."
            )
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (start.state, states)]
    if jax.tree.structure(start.state) != jax.tree.structure(states) or shapes[0] != shapes[1]:
        raise ArgumentError(
            "continue_from was trained with another network, optimiser or target_rate, or it was "
            "loaded without its own optimiser (load(path, optimiser=...))."
        )
    return _judged_again(Progress(start.state, history_rows(start.history)), training)


def _judged_again(progress: Progress, training: Training) -> Progress:
    """Returns the progress with its last row by what this fit learns from: other data or settings
    than before have another solution, which nothing has converged to yet."""
    assert isinstance(training.judge, Judge)
    row = training.judge.row(progress.states.params, progress.last_row["loss"])
    differ = sorted(set(row) ^ (set(progress.history) - {"update"}))
    if differ:
        raise ArgumentError(
            "continue_from learned from data of another kind: its history and that of this fit "
            f"differ in {', '.join(differ)}. States repeat in one of them, or their solution is "
            "known, and not in the other."
        )
    for name in training.judge.truths:
        before, now = (of[f"difference_{name}"] for of in (progress.last_row, row))
        if not np.allclose(before, now, rtol=1e-3, atol=1e-4, equal_nan=True):
            raise ArgumentError(
                f"the truth {name!r} is another vector than in continue_from: the largest "
                f"difference was {np.max(before):.4g}, and to this vector it is {np.max(now):.4g}. "
                "They must agree, since the history would mix both."
            )
    return Progress(
        progress.states,
        {name: (*rows[:-1], row.get(name, rows[-1])) for name, rows in progress.history.items()},
    )
