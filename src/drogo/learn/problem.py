"""Transitions as the numbers that an update is computed from."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from drogo.config import Config
from drogo.data.transitions import Transitions
from drogo.learn.plan import Plan
from drogo.learn.train import Hyper, Problem


def make_problem(data: Transitions, config: Config, plan: Plan) -> Problem:
    """Distinct transitions if each observation is evaluated once, all of them otherwise."""
    lam = config.lam
    ceiling = data.terminal_values.max() / lam if config.ceiling else np.inf
    source = data.edges if plan.whole else data
    rows = slice(None) if plan.whole or plan.repeats else plan.trained
    parts = {
        "state": source.state[rows],
        "next_state": source.next_state[rows],
        "cost": np.exp(-source.reward[rows] / lam),
        "boundary": source.terminal_value[rows] / lam,
        "terminated": source.terminated[rows],
    }
    if not plan.whole and not plan.repeats and config.objective == "drogo":
        parts = _with_ends(parts)
    table = data.observations[:0] if plan.streamed else data.observations
    floats = ("cost", "boundary")
    return Problem(
        observations=jnp.asarray(table),
        ceiling=jnp.asarray(ceiling, dtype=jnp.float32),
        **{
            name: jnp.asarray(part, dtype=jnp.float32 if name in floats else part.dtype)
            for name, part in parts.items()
        },
    )


def _with_ends(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A row for each arrival at an end that says what the end is worth: 1 - exp(boundary - v) = 0.

    In a table the ends are looked up. In a continuous world each is seen once, and the network must
    know what they have in common.
    """
    arrived = parts["terminated"]
    ends = parts["next_state"][arrived]
    extra = {
        "state": ends,
        "next_state": ends,
        "cost": np.ones(ends.size),
        "boundary": parts["boundary"][arrived],
        "terminated": np.ones(ends.size, dtype=bool),
    }
    return {name: np.concatenate([part, extra[name]]) for name, part in parts.items()}


def make_hypers(data: Transitions, settings: list[Config], seeds: int) -> Hyper:
    edges = data.edges

    def cap(config: Config) -> float:
        if config.cap != "auto":
            return config.cap
        return cap_from_data(edges.state, -edges.reward / config.lam, edges.count)

    columns = zip(*((c.step_size, c.penalty, cap(c)) for c in settings), strict=True)
    return Hyper(*(jnp.asarray(np.repeat(column, seeds), dtype=jnp.float32) for column in columns))


def cap_from_data(
    state: Int[np.ndarray, " edges"],
    log_cost: Float[np.ndarray, " edges"],
    count: Int[np.ndarray, " edges"],
) -> float:
    """Just above the largest v(s') - v(s) that the solution can have: -r/lam - log P(s'|s).

    Where states are seen once, P cannot be told from counts; then moves are taken to be no rarer
    than one in seven (log 7 is about 2).
    """
    rarity = np.log(np.bincount(state, count)[state] / count)
    return float(max((log_cost + rarity).max(), log_cost.max() + 2.0)) + 0.5
