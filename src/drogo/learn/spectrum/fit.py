"""`fit_spectrum`: from transitions to the leading eigenvectors of a representation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from drogo.config import Config, configure
from drogo.data import DefaultPolicy, Transitions, under
from drogo.device import to_device
from drogo.errors import ArgumentError, check_choice, check_number, check_whole
from drogo.exact import MATRICES
from drogo.learn.arguments import Seeds, own_parts, report_divergence, seed_list
from drogo.learn.build import choose
from drogo.learn.checkpoint import Progress
from drogo.learn.identity import data_digest, describe
from drogo.learn.learner import Learner, State
from drogo.learn.objectives import Numbers
from drogo.learn.plan import Plan
from drogo.learn.prepare import prepare_seeds
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
            the weight b (of "default" relative to the mean diagonal of the matrix; where states
            repeat, by default twice the largest eigenvalue of what the data describe), and
            `target_norm` the mean square c of a vector's entries.

    Returns:
        The learned vectors of each seed. Seeds that diverged are reported by a warning and by their
        status.

    Raises:
        Diverged: All seeds diverged.
    """
    listed = seed_list(seeds)
    vectors = check_whole("vectors", vectors, 1, MOST_VECTORS)
    check_choice("matrix", matrix, MATRICES)
    discount = check_number("discount", discount)
    if not 0 < discount < 1:
        raise ArgumentError(f"discount is {discount}; it must lie in (0, 1).")
    own, named = own_parts(settings)
    config = _configure(data, preset, named, matrix)
    make = _factory(objective)
    data, notes = under(data, default_policy)
    if default_policy is not None:
        own["default_policy"] = default_policy
    digest = data_digest(data)
    if data.repeats:
        data, lost = without_unknown(data)
        notes += [f"{lost} observations were never left, and are left out."] if lost else []
        check_whole("vectors", vectors, 1, len(data.observations))
    shown = with_rows_of_terminals(data, config.delta)
    shown = evenly(shown) if shown.repeats else shown
    chosen = "penalty" not in named
    training, states = _prepare(shown, config, listed, make, vectors, matrix, discount, own, chosen)
    judge = training.judge
    assert isinstance(judge, SpectrumJudge)
    progress = train(training, Progress(states), checkpoint, callbacks)
    lost = lost_at(progress)
    at = [None if update < 0 else int(update) for update in lost]
    status = np.where(lost >= 0, "diverged", judge.status(progress.last_row)).tolist()
    params, kept = progress.states.params, judge.plan.kept
    energy, products = judge.products(params)
    empty = np.full((len(listed), vectors), np.nan)
    result = Eigenvectors(
        vectors=judge.vectors(params, kept),
        eigenvalues=empty,
        cosines=empty,
        overlap=empty[:, 0],
        status=tuple(status),
        diverged_at=tuple(at),
        history={name: np.stack(rows) for name, rows in progress.history.items()},
        objective=objective if isinstance(objective, str) else describe(objective),
        matrix=matrix,
        discount=discount,
        config=judge.configs[0],
        seeds=tuple(listed),
        observations=np.asarray(shown.observations[kept]),
        neighbours=_among(data.neighbours, kept),
        mixing=np.tile(np.eye(vectors), (len(listed), 1, 1)),
        energy=energy,
        products=products,
        solution=judge.solution,
        learner=judge.learner,
        state=progress.states,
        notes=tuple(notes),
        data_digest=digest,
        own={name: describe(part) for name, part in own.items()},
        versions=versions(),
    )
    report_divergence(result.seeds, result.diverged_at, "Try a smaller step_size.")
    return mixed(result, result.mixing)


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
    if not callable(objective):
        raise ArgumentError(
            f"objective is {objective!r}; give a name ({', '.join(SEVERAL)}) or a subclass of "
            "drogo.learn.AbstractSeveral."
        )
    return objective


def _prepare(
    data: Transitions,
    config: Config,
    seeds: list[int],
    make: Any,
    vectors: int,
    matrix: str,
    discount: float,
    own: Mapping[str, Any],
    choose_penalty: bool,
) -> tuple[Training, State]:
    """Puts together what training needs, as `prepare` does for one vector."""
    size, solution = 1.0, None
    if matrix == "default":  # whose eigenvalues grow with the diagonal
        size = float(np.average(np.exp(-data.reward / config.lam), weights=data.weight))
    if data.repeats:
        solution = solve(data, matrix, vectors, config.lam, discount)
        if choose_penalty:
            config = replace(config, penalty=_penalty(solution.eigenvalues[:vectors] / size))
    pace = 1.0 if "optimiser" in own or "schedule" in own else PACE / config.step_size
    columns = {
        "lam": config.lam,
        "penalty": size * config.penalty,
        "target_norm": config.target_norm,
        "scale": pace,
    }
    one = Numbers(**{name: to_device(value, jnp.float32) for name, value in columns.items()})
    objective = make(one, vectors, matrix, discount)
    if not isinstance(objective, AbstractSeveral):
        raise ArgumentError(
            f"objective made a {type(objective).__name__}; it must make a "
            "drogo.learn.AbstractSeveral."
        )

    def make_judge(plan: Plan, learner: Learner, numbers: Numbers, configs: list[Config]) -> Any:
        return SpectrumJudge(data, plan, learner, objective, numbers, configs, solution)

    identity = {"spectrum": [describe(make), vectors, matrix, discount]}
    return prepare_seeds(data, config, seeds, objective, own, make_judge, identity)


def _penalty(eigenvalues: np.ndarray) -> float:
    """Returns a penalty that holds vectors in place and lets their eigenvalues tell them apart."""
    largest = max(float(np.abs(eigenvalues).max()), float(np.ptp(eigenvalues)))
    return max(LEAST_PENALTY, TIMES_THE_EIGENVALUES * largest)


def _among(pairs: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Returns the pairs of observations that are both kept, by their places among these."""
    both = np.isin(pairs, kept).all(axis=1)
    return np.searchsorted(kept, pairs[both])
