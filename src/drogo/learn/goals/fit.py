"""`fit_goals`: from transitions to a map to every goal."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from drogo.data import DefaultPolicy, Transitions, under
from drogo.data.empirical import check_ends, costs_needed
from drogo.errors import ArgumentError, check_number
from drogo.learn.arguments import Seeds, report_divergence, seed_list
from drogo.learn.goals.batches import Reached
from drogo.learn.goals.config import GoalConfig, configure
from drogo.learn.goals.continuous import fit_continuous
from drogo.learn.goals.repeating import fit_repeating
from drogo.learn.goals.result import GoalMap
from drogo.learn.identity import data_digest
from drogo.learn.plan import BYTES_IN_RESULT
from drogo.requests import versions


def fit_goals(
    data: Transitions,
    *,
    seeds: Seeds = 1,
    default_policy: DefaultPolicy | None = None,
    reached: Reached | None = None,
    radius: float | None = None,
    **settings: Any,
) -> GoalMap:
    """Learns how well any state reaches any goal: v(s, g), from transitions alone.

    Where states repeat, the problem that the data describe is solved exactly for every goal, and
    the network is fitted to the solution. Elsewhere it is learned by the loss of DROGO, on
    transitions whose goals are chosen afterwards.

    Args:
        data: The transitions.
        seeds: How many seeds (0, 1, ...), or which.
        default_policy: The policy that the map belongs to, as in `fit`.
        reached: Where states do not repeat: a function of a batch of observations and a goal for
            each of them, which returns whether it is reached there.
        radius: In place of `reached`: the largest distance between normalised observations at
            which a goal is reached.
        **settings: Fields of `drogo.learn.GoalConfig`.

    Returns:
        The map. Seeds that diverged are reported by a warning and by their status.

    Raises:
        ArgumentError: An argument cannot be used.
        DataError: It cannot be learned from these data.
        Diverged: All seeds diverged.
    """
    config, listed = configure(data, settings), seed_list(seeds)
    check_ends(data)
    if (data.reward >= 0).any():
        raise costs_needed(data)
    radius = _check(data, config, reached, radius)
    digest = data_digest(data)
    by_action = not data.repeats and config.objective == "q"
    data, notes = under(data, default_policy, by_action=by_action)
    if data.repeats:
        parts, outcomes = fit_repeating(data, config, listed)
    else:
        parts, outcomes = fit_continuous(data, config, listed, reached, radius)
    params = [outcome.state.params for outcome in outcomes]
    at = [int(outcome.state.diverged_at) for outcome in outcomes] or [-1] * len(listed)
    lost = [None if update < 0 else update for update in at]
    status, notes = zip(parts.pop("status"), lost, strict=True), [*notes, *parts.pop("notes")]
    result = GoalMap(
        **{"radius": None, "reached": None, **parts},
        status=tuple(good if at is None else "diverged" for good, at in status),
        diverged_at=tuple(lost),
        history=tuple(outcome.history for outcome in outcomes),
        config=config,
        seeds=tuple(listed),
        params=jax.tree.map(lambda *leaves: jnp.stack(leaves), *params) if params else None,
        n_actions=data.n_actions,
        repeats=data.repeats,
        notes=tuple(notes),
        data_digest=digest,
        versions=versions(),
    )
    report_divergence(result.seeds, result.diverged_at, "try a smaller step_size or a larger lam.")
    return result


def _check(
    data: Transitions, config: GoalConfig, reached: Reached | None, radius: float | None
) -> float | None:
    """Raises an error if the data lack what the settings need, and returns the radius."""
    if config.objective == "q" and data.n_actions is None:
        raise ArgumentError(
            "objective='q' has a value for each action, and these transitions have no discrete "
            "actions. Leave it out, or give action= to Transitions.from_arrays."
        )
    if data.observations.ndim == 1 and config.network != "table":
        raise ArgumentError(
            f"the observations are state numbers, from which network={config.network!r} learns "
            "nothing. Use network='table', or another kind of observation, such as one-hot."
        )
    if data.observations.nbytes > BYTES_IN_RESULT:
        raise ArgumentError(
            f"the observations take {data.observations.nbytes / 2**20:.0f} MiB, and a map to every "
            f"goal is learned from at most {BYTES_IN_RESULT / 2**20:.0f}. Use fewer transitions."
        )
    if data.repeats:
        if reached is not None or radius is not None:
            raise ArgumentError(
                "states repeat in these data, so that a goal is reached in the very state. Leave "
                "out reached and radius."
            )
        return None
    if config.network == "table":
        raise ArgumentError("states do not repeat in these data, so there is no table of them.")
    if (reached is None) == (radius is None):
        raise ArgumentError(
            "states do not repeat in these data, so no goal is ever reached exactly.",
            remedy="Say when it counts as reached: give either radius=, the largest distance "
            "between normalised observations, or reached=, a function of observations and goals.",
        )
    if reached is not None:
        return None
    radius = check_number("radius", radius)
    if radius <= 0:
        raise ArgumentError(f"radius is {radius}; it must be positive.")
    return radius
