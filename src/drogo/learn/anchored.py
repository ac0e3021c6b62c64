"""The methods whose map is held in place by terminal states: `Drogo`, `Paper` and `Regression`."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array

from drogo.data import Transitions
from drogo.errors import ArgumentError, check_share
from drogo.learn.architectures import CNN, MLP, AbstractArchitecture, Optimiser, Table
from drogo.learn.method import (
    ROWS_AT_ONCE,
    AbstractCapped,
    AbstractMethod,
    Sample,
    Scalar,
    is_small,
    rows_at_once,
)
from drogo.learn.settings import Swept, check_below_one, check_fields, check_flag, optional


class AbstractActionMethod(AbstractMethod):
    """A method that can learn one value for each action."""

    action_values: bool | None = eqx.field(static=True, default=None)
    """Learns a value for each action, from data of any policy. By default where that is needed."""

    solves: ClassVar[tuple[str, ...]] = ("column", "goals", "continuing")
    finds_column: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_fields(self, action_values=optional(check_flag))

    @property
    def per_action(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return bool(self.action_values)


class Drogo(AbstractCapped, AbstractActionMethod):
    """The paper's objective (theorem 3.13): [exp(-r/lam) - exp(v(s') - v(s))] v(s), with the
    bracket held constant and v(s_T) = 0.

    With `action_values` the network has an output x(s, a) for each action, and exp(v(s)) is the sum
    of exp(x(s, a)). At the solution exp(x(s, a)) = d(a|s) E[exp(r/lam + v(s'))], where d is the
    default policy, so that it does not matter how often each action was taken.

    For a task that never ends, k, the log of the eigenvalue, is learned beside the map: with
    B = exp(k - r/lam) - exp(v(s') - v(s)) and the mean m of v, the loss is (B + m) v(s) + B k, with
    B and m held constant, similar to Wan, Naik and Sutton (2021).
    """

    target_rate: float | None = eqx.field(static=True, default=None)  # pyright: ignore
    """The Polyak rate of a target network that gives v(s'); 1 for none. By default 1 where every
    update uses all transitions, and 0.3 elsewhere."""
    terminal_fraction: float | None = eqx.field(static=True, default=None)  # pyright: ignore
    """The fraction of each batch that is sampled from transitions into terminal states, with
    weights that undo it. By default 0.1 where batches are sampled."""

    host_only: ClassVar[tuple[str, ...]] = (*AbstractMethod.host_only, "terminal_fraction")

    def __check_init__(self) -> None:
        rate, fraction = optional(_check_rate), optional(check_below_one)
        check_fields(self, target_rate=rate, terminal_fraction=fraction)

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        # A terminal value pulls with a larger cap: it alone stops a map that drifts as a whole.
        anchor_cap = jnp.maximum(self.cap, sample.problem.anchor_cap)
        cap = jnp.where(sample.terminated, anchor_cap, self.cap)
        bounded = jnp.minimum(next_output, sample.ceiling)
        v_next = jnp.where(sample.terminated, next_output, bounded)
        if sample.extra is None:
            return self.imbalance(output, v_next, sample.log_cost, cap) * output
        log_cost = sample.log_cost + sample.extra
        slope = self.imbalance(output, v_next, log_cost, cap)
        return (slope + stop_gradient(sample.moment)) * output + slope * sample.extra

    def extra(self, problem: Any) -> Array | None:
        return problem.extra()

    def recommended(self, data: Transitions, network: AbstractArchitecture) -> dict[str, Any]:
        settings = super().recommended(data, network)
        whole = (self.batch_size or settings["batch_size"]) == "all"
        by_action = not (data.repeats or data.follows_default) and data.n_actions is not None
        return {
            **settings,
            "action_values": by_action,
            "target_rate": 1.0 if whole else 0.3,
            "terminal_fraction": 0.0 if whole else 0.1,
        }


class Paper(Drogo):
    """Exactly the settings of the paper: its loss, batches, network, optimiser and length."""

    updates: int | None = eqx.field(static=True, default=40_000)
    batch_size: int | str | None = eqx.field(static=True, default=2000)
    weigh_actions: bool = eqx.field(static=True, default=False)
    stop_early: bool = eqx.field(static=True, default=False)
    action_values: bool | None = eqx.field(static=True, default=False)
    cap: Swept = math.inf
    scaled: bool = eqx.field(static=True, default=False)
    emphasis: float | None = eqx.field(static=True, default=0.0)
    target_rate: float | None = eqx.field(static=True, default=1.0)
    terminal_fraction: float | None = eqx.field(static=True, default=0.0)

    def network(self, data: Transitions) -> AbstractArchitecture:
        dimensions = {1: Table(), 4: CNN()}
        return dimensions.get(data.observations.ndim, MLP(frequencies=0, normalise=False))

    def optimiser(self, data: Transitions, network: AbstractArchitecture) -> Optimiser:
        return Optimiser("rmsprop", 1e-5, "constant")


class Regression(AbstractActionMethod):
    """Solves the problem that the data describe exactly, and fits the network to the solution by
    least squares. It needs states that repeat, and it is not the paper's method."""

    needs_solution: ClassVar[bool] = True
    scaled: ClassVar[bool] = True

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        return ((output - next_output) / sample.scale) ** 2 / 2

    def equation(self) -> Drogo:
        return Drogo(action_values=self.action_values, cap=math.inf)

    def recommended(self, data: Transitions, network: AbstractArchitecture) -> dict[str, Any]:
        rows, images = len(data.observations), data.observations.ndim == 4
        limit = rows_at_once(data, network)
        many = data.observations.ndim == 2 and rows > ROWS_AT_ONCE
        updates = 4000 if images else 5000 if many else 2000
        whole = is_small(data) and rows <= limit
        batch_size = "all" if whole else limit // 2
        return {"updates": updates, "batch_size": batch_size, "action_values": False}

    def network(self, data: Transitions) -> AbstractArchitecture:
        if data.observations.ndim == 1:
            return Table()
        many = data.observations.ndim == 2 and len(data.observations) > ROWS_AT_ONCE
        return MLP(frequencies=64) if many else MLP()

    def optimiser(self, data: Transitions, network: AbstractArchitecture) -> Optimiser:
        if isinstance(network, CNN):
            return Optimiser(step_size=8e-4)
        if data.observations.ndim == 4:  # larger steps may leave images without a responding unit
            return Optimiser(step_size=2e-4)
        return super().optimiser(data, network)


def _check_rate(name: str, value: Any) -> float:
    rate = check_share(name, value)
    if not rate:
        raise ArgumentError(f"{name} is 0, so that the target would never move.", argument=name)
    return rate
