"""The ablation with a table as in the authors' code (ablation_tabular.py): plain descent through
all pairs of state and action, one after another, with the gradient at s alone.

| objective | gradient at s, of v or, for gdo, of u | states |
|---|---|---|
| gdo | exp(-r/lam) u(s) - u(s') + b (sum u^2 - 1) u(s) | all |
| log_gdo | exp(-r/lam) e(s) - e(s') + b (sum e^2 - 1) e(s), with e = exp(v) | all |
| natural_gdo | exp(-r/lam) - exp(v(s') - v(s)) + b (sum exp(2 v) - 1) | all |
| drogo | exp(-r/lam) - exp(v(s') - v(s)), with v = 0 in terminal states | not terminal |
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from drogo.exact import solve
from drogo.learn.judge import cosine
from drogo.worlds.grid import GridWorld
from drogo_paper.engines.job import Outcome, Report
from drogo_paper.recipes import DELTA

LOGGED = 100
"""The number of parts of a run, after each of which the cosine is taken."""
TRUTHS = ("column", "representation", "transition")
Values = Float[Array, "states runs"]
Move = tuple[Array, Array, Array, Array]
"""A state, the next one, exp(-r/lam), and 0 if the next one is terminal and anchored, or else 1."""
Runs = Float[Array, " runs"]


def gdo(u: Values, total: Runs, move: Move, b: Runs) -> tuple[Runs, Callable[[Runs], Runs]]:
    """Returns the gradient, and the function whose sum over the states is the norm."""
    s, after, cost, _ = move
    return cost * u[s] - u[after] + b * (total - 1) * u[s], jnp.square


def log_gdo(v: Values, total: Runs, move: Move, b: Runs) -> tuple[Runs, Callable[[Runs], Runs]]:
    s, after, cost, _ = move
    gradient = cost * jnp.exp(v[s]) - jnp.exp(v[after]) + b * (total - 1) * jnp.exp(v[s])
    return gradient, lambda value: jnp.exp(2 * value)


def natural_gdo(v: Values, total: Runs, move: Move, b: Runs) -> tuple[Runs, Any]:
    s, after, cost, _ = move
    gradient = cost - jnp.exp(v[after] - v[s]) + b * (total - 1)
    return gradient, lambda value: jnp.exp(2 * value)


def drogo(v: Values, total: Runs, move: Move, b: Runs) -> tuple[Runs, Callable[[Runs], Runs]]:
    s, after, cost, inner = move
    return cost - jnp.exp(inner * v[after] - v[s]), jnp.zeros_like


GRADIENTS = {"gdo": gdo, "log_gdo": log_gdo, "natural_gdo": natural_gdo, "drogo": drogo}


def moves(world: GridWorld, lam: float, anchored: bool) -> tuple[np.ndarray, ...]:
    """Returns the columns of `Move` for all states and actions in order. Terminal states absorb at
    the reward -DELTA, or are left out if they are anchored."""
    mdp, after = world.mdp, world.mdp.outcomes.next_state[:, :, 0]
    after = np.where(world.terminal[:, None], np.arange(mdp.n_states)[:, None], after)
    state = np.repeat(np.arange(mdp.n_states), mdp.n_actions)
    reward = np.where(world.terminal, -DELTA, mdp.reward)[state]
    kept = ~world.terminal[state] if anchored else np.ones(state.size, dtype=bool)
    inner = 1.0 - (world.terminal[after.ravel()] & anchored)
    return tuple(column[kept] for column in (state, after.ravel(), np.exp(-reward / lam), inner))


@partial(jax.jit, static_argnames=("objective", "passes"))
def descend(
    v: Values, objective: str, data: Any, step_size: Runs, penalty: Runs, passes: int
) -> Values:
    """Makes some passes through the data, whose columns are those of `Move`."""

    def step(carry: tuple[Values, Runs], move: Move) -> tuple[tuple[Values, Runs], None]:
        v, total = carry
        gradient, square = GRADIENTS[objective](v, total, move, penalty)
        old = v[move[0]]
        new = old - step_size * gradient
        return (v.at[move[0]].set(new), total + square(new) - square(old)), None

    def one_pass(_: Int[Array, ""], v: Values) -> Values:
        square = GRADIENTS[objective](v, v[0], tuple(part[0] for part in data), penalty)[1]
        return jax.lax.scan(step, (v, square(v).sum(axis=0)), data)[0][0]

    return jax.lax.fori_loop(0, passes, one_pass, v)


def search(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Runs all points of a grid over step size and penalty, with all seeds, side by side."""
    world, objective = GridWorld.load(settings["world"]), settings["objective"]
    grid, seeds, passes = settings["grid"], settings["seeds"], settings["passes"]
    names = [name for name in ("penalty", "step_size") if name in grid]
    points = [(size,) for size in grid["step_size"]]
    if "penalty" in grid:
        points = [(penalty, size) for penalty in grid["penalty"] for (size,) in points]
    each = {name: np.repeat([point[k] for point in points], seeds) for k, name in enumerate(names)}
    first = [np.random.default_rng(seed).normal(size=world.n_states) for seed in range(seeds)]
    anchored = objective == "drogo"
    rows = {f"cosine_{truth}": [] for truth in TRUTHS}
    vectors = [solve(world.mdp, settings["lam"], truth).checked().log_e for truth in TRUTHS]
    log_e = np.zeros(0)
    with jax.enable_x64(True):
        v = jnp.asarray(np.tile(np.stack(first, axis=1), len(points)))
        data = tuple(map(jnp.asarray, moves(world, settings["lam"], anchored)))
        parts = (data, each["step_size"], each.get("penalty", np.zeros(v.shape[1])))
        for part in range(LOGGED + 1):
            if part:
                v = descend(v, objective, *parts, passes // LOGGED)
            log_e = np.array(v if objective != "gdo" else jnp.log(jnp.abs(v))).T
            if anchored:
                log_e[:, world.terminal] = 0.0
            for name, truth in zip(rows, vectors, strict=True):
                # As in the code: the truth is shifted to a largest entry of 0, and v is not.
                with np.errstate(invalid="ignore", over="ignore"):
                    rows[name].append(cosine(log_e, truth - truth.max()).reshape(-1, seeds))
            report(part / LOGGED)
    shape = (len(points), seeds, world.n_states)
    finite = np.isfinite(log_e).all(axis=1)
    wrong = (np.asarray(v).T * np.sign(np.asarray(v).sum(axis=0))[:, None] < 0).sum(axis=1)
    arrays: dict[str, Any] = {name: np.stack(parts, axis=1) for name, parts in rows.items()}
    arrays |= {"update": np.arange(LOGGED + 1) * (passes // LOGGED), "v": log_e.reshape(shape)}
    arrays |= {"diverged": ~finite.reshape(shape[:2])}
    arrays |= {"wrong_sign": np.where(objective == "gdo", wrong, 0).reshape(shape[:2])}
    return Outcome(arrays, {"grid": names, "points": [list(point) for point in points]})
