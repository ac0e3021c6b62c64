"""The objectives of tasks that never end, in which what a step is worth is learned as well.

Rewards are lowered by the gain, so that on balance nothing is gained, and the map is the vector of
what is left. A gain that is too small lifts the map as a whole at every update, and is itself
lifted by the very residuals that do so, until they balance. Wan, Naik and Sutton (2021) learn
average rewards like this. A target network lags behind a map that rises or sinks, which hides it
from the residuals; so a pull on the mean of the map holds that at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient
from jaxtyping import Array, Float

from drogo.config import Config
from drogo.data import Transitions
from drogo.device import to_device
from drogo.learn.judge import Judge, Row
from drogo.learn.learner import Learner
from drogo.learn.networks import AbstractNetwork, Holding
from drogo.learn.numbers import STEPS_OF_A_SCALE, cap_from_data
from drogo.learn.objectives import AbstractDrogo, ActionValues, Drogo, Numbers, Sample, Scalar
from drogo.learn.plan import Plan
from drogo.learn.prepare import prepare_lanes
from drogo.learn.train import Training


class AbstractDifferential(AbstractDrogo):
    """[B + b m] v(s) + B k, where B = exp(k - r/lam) - exp(v(s') - v(s)), and B and m are held
    constant.

    k is the log of the eigenvalue, and `lam k` the gain. It is `numbers.scale` times the number
    that the network holds, as v is `numbers.scale` times the network's output. m is the mean of v
    over an independent batch.
    """

    anchored: ClassVar[bool] = False
    is_column: ClassVar[bool] = False
    needs_second_batch: ClassVar[bool] = True

    def hold(self, network: AbstractNetwork) -> AbstractNetwork:
        return Holding(network, jnp.zeros(()))

    def log_eigenvalue(self, held: Any) -> Any:
        """Returns k for the number that a network holds."""
        return self.numbers.scale * held

    def second_moment(self, outputs: Array, weight: Array) -> Array:
        return weight @ self.log_e(outputs)

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        assert sample.held is not None
        log_eigenvalue = self.log_eigenvalue(sample.held)
        log_cost = sample.log_cost + log_eigenvalue
        slope = stop_gradient(self.imbalance(output, next_output, log_cost, self.numbers.cap))
        level = self.numbers.penalty * stop_gradient(sample.squared_norm)
        return (slope + level) * output + slope * log_eigenvalue

    def log_scale(self, log_e: Float[Array, " states"]) -> Scalar:
        return log_e.mean()


class Differential(AbstractDifferential, Drogo):
    """For transitions of the default policy."""


class DifferentialActionValues(AbstractDifferential, ActionValues):
    """For transitions of any policy, with a value for each action."""


@dataclass(frozen=True)
class DifferentialJudge(Judge):
    """A judge that knows of the eigenvalue as well.

    An error of its log counts as much as 20 of them in v: it is made at every step.

    Args:
        log_eigenvalue: The log of the exact eigenvalue of what the data describe, if they do.
        level: By how much `r / lam` was lowered before training: the log of the eigenvalue is by so
            much larger than what is learned.
    """

    log_eigenvalue: float | None = None
    level: float = 0.0

    def row(self, params: Any, losses: Float[np.ndarray, " lanes"]) -> Row:
        row = super().row(params, losses)
        row["log_eigenvalue"] = learned_eigenvalue(self.learner, params) + self.level
        if self.log_eigenvalue is not None:
            off = np.abs(row["log_eigenvalue"] - self.log_eigenvalue)
            row["error"] = np.maximum(row["error"], STEPS_OF_A_SCALE * off)
        return row

    def status(self, row: Mapping[str, np.ndarray]) -> list[str]:
        found = super().status(row)
        if self.log_eigenvalue is not None:
            return found
        # Equations that hold do not tell whose eigenvalue it is, if states fall into classes.
        return ["unverified" if one == "converged" else one for one in found]


def learned_eigenvalue(learner: Learner, params: Any) -> Float[np.ndarray, " lanes"]:
    """Returns the log of the eigenvalue that each seed has learned.

    Args:
        learner: The learner.
        params: The parameters of every seed, stacked.
    """
    assert isinstance(learner.objective, AbstractDifferential)
    return np.asarray(learner.objective.log_eigenvalue(params.numbers), dtype=np.float64)


def prepare_jointly(
    data: Transitions,
    config: Config,
    seeds: list[int],
    own: dict[str, Any],
    known: tuple[Float[np.ndarray, " distinct"], float] | None,
    level: float,
) -> tuple[Training, Any]:
    """Puts together what training needs.

    Args:
        data: The transitions, none of them terminated, with lowered rewards.
        config: The settings.
        seeds: The seeds.
        own: What the user gave as objects, and as "objective" one of the classes above.
        known: The exact v and log of the eigenvalue of what the data describe, if states repeat,
            with the rewards that were not lowered.
        level: By how much `r / lam` was lowered.
    """
    cap = config.cap
    if cap == "auto":
        cap = cap_from_data(data, config.lam, config.scaled)
    spread = float(np.ptp(data.reward)) / config.lam
    columns = {
        "lam": config.lam,
        "cap": cap,
        "scaling": config.scaled,
        "scale": spread or 1.0,
        "penalty": config.penalty,
    }
    numbers = Numbers(**{name: to_device(n, jnp.float32) for name, n in columns.items()})

    def make_judge(plan: Plan, learner: Learner, numbers: Numbers, configs: list[Config]) -> Judge:
        parts = (data, plan, learner, numbers, configs, {})
        if known is None or not plan.repeats:  # of a large table only some rows are looked at
            return DifferentialJudge(*parts, level=level)
        v, log_eigenvalue = known
        solution = np.tile(v - v[plan.compared].mean(), (len(configs), 1))
        return DifferentialJudge(*parts, solution, log_eigenvalue, level)

    return prepare_lanes(data, [config], seeds, [own["objective"](numbers)], own, make_judge, {})
