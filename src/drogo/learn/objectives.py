"""The objectives: what a network is trained to minimise, and what its output then means.

| objective | output | gradient | what keeps it from collapsing | in the paper |
|---|---|---|---|---|
| `GDO` | e | plain | norm penalty | proposition 3.3 |
| `LogGDO` | log e | plain | norm penalty | proposition 3.4 |
| `NaturalGDO` | log e | natural | norm penalty | proposition 3.9 |
| `Drogo` | log e | natural | v(s_T) = 0 | theorem 3.13 |
| `ActionValues` | log e, split by action | natural | v(s_T) = 0 | |

An objective of your own is a subclass of `AbstractAnchored` or `AbstractPenalised` that implements
their abstract methods. Give the class to `fit(objective=...)`.
"""

import abc
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.lax import stop_gradient
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from drogo.learn.networks import AbstractNetwork, Outputs

Scalar = Float[Array, ""]


def _number(default: float) -> Any:
    return eqx.field(converter=lambda value: jnp.asarray(value, jnp.float32), default=default)


class Numbers(eqx.Module):
    """The numbers of an objective. They are arrays, so changing them compiles nothing."""

    lam: Float[Array, "*lanes"] = _number(20.0)
    """Temperature."""
    cap: Float[Array, "*lanes"] = _number(jnp.inf)
    """Largest v(s') - v(s) inside an exponential, or infinity. At the solution
    v(s') - v(s) <= -r/lam - log P(s'|s), so a cap above that does not move the solution."""
    ceiling: Float[Array, "*lanes"] = _number(jnp.inf)
    """Largest v(s'), or infinity. Rewards are negative, so the solution is nowhere above the best
    terminal value."""
    penalty: Float[Array, "*lanes"] = _number(1.0)
    """The weight b of the norm penalty."""
    target_norm: Float[Array, "*lanes"] = _number(1.0)
    """The value c at which the penalty holds the mean of the squared entries."""
    scaling: Float[Array, "*lanes"] = _number(0.0)
    """The power of exp(-r / lam) by which equations are divided: 0, or 1 so that costly states do
    not dominate the gradient."""
    scale: Float[Array, "*lanes"] = _number(1.0)
    """What a network's output is multiplied by, so that it is of order 1 at every lam."""


class Sample(NamedTuple):
    """What a loss needs of one transition besides the network's outputs."""

    log_cost: Float[Array, "*n"]
    """-r / lam; for an objective with an output for each action, less the log of the probability
    with which the default policy takes the action."""
    terminated: Bool[Array, "*n"]
    squared_norm: Float[Array, "*n"]
    """The mean of the squared entries over an independent batch (penalised objectives only). For
    several vectors, the means of the products of any two of them."""
    held: Float[Array, "*n"] | None = None
    """The numbers that are trained beside the network (`AbstractNetwork.held`), if there are
    any."""

    @property
    def cost(self) -> Float[Array, "*n"]:
        """exp(-r / lam)."""
        return jnp.exp(self.log_cost)


class AbstractObjective(eqx.Module):
    """A loss of one transition, and what the output of a network trained with it means."""

    numbers: Numbers
    """The numbers of the objective."""

    anchored: ClassVar[bool]
    """Whether terminal states have a given value. Otherwise they absorb, at reward -delta."""
    needs_second_batch: ClassVar[bool]
    """Whether `Sample.squared_norm` is used; it is estimated from a second batch."""
    separable: ClassVar[bool]
    """Whether the equation of a state involves only the transitions that leave it. States may then
    be weighed at will without moving the solution."""
    initial_output: ClassVar[float | None]
    """The output from which a table is trained. None: numbers that are drawn at random."""
    is_column: ClassVar[bool] = False
    """Whether its solution is the column of the default representation, which is known exactly
    where states repeat."""
    per_action: ClassVar[bool] = False
    """Whether the network has an output for each action. Otherwise it has one."""

    def with_numbers(self, numbers: Numbers) -> "AbstractObjective":
        """Returns this objective with other numbers."""
        return replace(self, numbers=numbers)

    def outputs(self, n_actions: int | None) -> Outputs:
        """Returns how many outputs a network needs.

        Args:
            n_actions: The number of actions, if they are known.
        """
        if not self.per_action:
            return "scalar"
        assert n_actions is not None
        return n_actions

    def hold(self, network: AbstractNetwork) -> AbstractNetwork:
        """Returns a network with the numbers beside it that the loss asks for. Most ask for none.

        Args:
            network: The network.
        """
        return network

    @abc.abstractmethod
    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        """Returns the loss of one transition. Its gradient is what matters.

        Args:
            output: The network's output at s (for the action that was taken).
            next_output: What `next_output` returned for s'.
            sample: The rest of the transition.
        """

    @abc.abstractmethod
    def next_output(self, output: Array, terminated: Array, terminal_reward: Array) -> Array:
        """Returns the outputs at s' with terminal states treated as the objective demands.

        Args:
            output: The network's outputs at s'.
            terminated: Where s' is a terminal state.
            terminal_reward: The rewards of these terminal states.
        """

    def at_action(self, outputs: Array, action: Array | None) -> Array:
        """Returns what the loss is of: the outputs that belong to the actions that were taken.

        Args:
            outputs: The network's outputs at s.
            action: The actions, or None if they are not known.
        """
        return outputs

    def second_moment(self, outputs: Array, weight: Array) -> Array:
        """Returns what `Sample.squared_norm` is of a batch.

        Args:
            outputs: The network's outputs at the states of the batch.
            weight: The weight of each, which sum to 1.
        """
        return weight @ self.entry(outputs) ** 2

    @abc.abstractmethod
    def entry(self, output: Array) -> Array:
        """Returns the entries of e that some outputs stand for."""

    @abc.abstractmethod
    def log_e(self, output: Any) -> Any:
        """Returns log |e| for some outputs, up to a constant."""

    @abc.abstractmethod
    def log_scale(self, log_e: Float[Array, " states"]) -> Scalar:
        """Returns the constant that is subtracted from log e over all states to fix its scale."""

    @abc.abstractmethod
    def unit(self, output: Array, log_cost: Array) -> Array:
        """Returns the unit of a state's residual: the size of the largest term in its equation.

        Args:
            output: The outputs at s, for the actions that were taken.
            log_cost: -r / lam.
        """


class AbstractLogObjective(AbstractObjective):
    """An objective whose output is v = log e."""

    initial_output: ClassVar[float | None] = 0.0

    def at_action(self, outputs: Array, action: Array | None) -> Array:
        return self.numbers.scale * outputs

    def entry(self, output: Array) -> Array:
        return jnp.exp(self.log_e(output))

    def log_e(self, output: Any) -> Any:
        return self.numbers.scale * output

    def unit(self, output: Array, log_cost: Array) -> Array:
        return jnp.exp((1 - self.numbers.scaling) * log_cost)

    def imbalance(self, output: Scalar, next_output: Scalar, log_cost: Scalar, cap: Any) -> Scalar:
        """Returns exp(-r/lam) - exp(v(s') - v(s)), divided by the scaling.

        Args:
            output: v(s).
            next_output: v(s').
            log_cost: -r / lam.
            cap: The largest exponent of the second term.
        """
        scaled = self.numbers.scaling * log_cost
        exponent = jnp.minimum(next_output - output - scaled, cap)
        return jnp.exp(log_cost - scaled) - jnp.exp(exponent)


class AbstractAnchored(AbstractLogObjective):
    """An objective for v = log e whose terminal states have the value `terminal_reward / lam`."""

    anchored: ClassVar[bool] = True
    needs_second_batch: ClassVar[bool] = False
    separable: ClassVar[bool] = True

    def next_output(self, output: Array, terminated: Array, terminal_reward: Array) -> Array:
        return jnp.where(terminated, terminal_reward / self.numbers.lam, self.log_e(output))

    def log_scale(self, log_e: Float[Array, " states"]) -> Scalar:
        return jnp.zeros((), dtype=log_e.dtype)


class AbstractPenalised(AbstractObjective):
    """An objective whose norm penalty keeps e from collapsing. Terminal states absorb."""

    anchored: ClassVar[bool] = False
    needs_second_batch: ClassVar[bool] = True

    def next_output(self, output: Array, terminated: Array, terminal_reward: Array) -> Array:
        return self.at_action(output, None)

    def log_scale(self, log_e: Float[Array, " states"]) -> Scalar:
        return logsumexp(2 * log_e) / 2  # e then has unit norm


class GDO(AbstractPenalised):
    """1/2 (u(s) - u(s'))^2 + exp(-r/lam) u(s)^2 + b (u(s)^2 - c)(u(s'')^2 - c).

    Summed over all transitions the first two terms are u'(I + R - P~)u (proposition 3.2). The third
    is an unbiased sample of b (u'u - c)^2, because s'' does not depend on s.
    """

    separable: ClassVar[bool] = False
    initial_output: ClassVar[float | None] = 1.0

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        u, n = output, self.numbers
        norm = n.penalty * (u**2 - n.target_norm) * (sample.squared_norm - n.target_norm)
        return 0.5 * (u - next_output) ** 2 + sample.cost * u**2 + norm

    def entry(self, output: Array) -> Array:
        return output

    def log_e(self, output: Any) -> Any:
        return jnp.log(jnp.maximum(jnp.abs(output), jnp.finfo(jnp.float32).tiny))

    def unit(self, output: Array, log_cost: Array) -> Array:
        return 2 * jnp.exp(log_cost) * jnp.abs(output)


class LogGDO(AbstractPenalised, AbstractLogObjective):
    """`GDO` of u = exp(v). Its gradient carries a factor exp(v), which is why it fails."""

    separable: ClassVar[bool] = False

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        return GDO(self.numbers).loss(jnp.exp(output), jnp.exp(next_output), sample)

    def unit(self, output: Array, log_cost: Array) -> Array:
        return 2 * jnp.exp(log_cost + 2 * output)


class NaturalGDO(AbstractPenalised, AbstractLogObjective):
    """[exp(-r/lam) - exp(v(s') - v(s)) + b (exp(2 v(s'')) - c)] v(s), the bracket held constant.

    This is exp(-2v) times the gradient of `LogGDO` (the metric of proposition 3.5), sampled: the
    bracket is the s-th entry of exp(-v) (R - P) exp(v) + b (u'u - c) (propositions 3.7 and 3.8).
    The value of this surrogate means nothing; its gradient is the bracket times that of v(s).
    """

    separable: ClassVar[bool] = True

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        n = self.numbers
        norm = n.penalty * (sample.squared_norm - n.target_norm)
        bracket = self.imbalance(output, next_output, sample.log_cost, n.cap)
        bracket += norm * jnp.exp(-n.scaling * sample.log_cost)
        return stop_gradient(bracket) * output


ANCHOR_CAP = 20.0
"""The smallest cap at a terminal state: far above any solution, far below an overflow."""


class AbstractDrogo(AbstractAnchored):
    """What `Drogo` and `ActionValues` have in common: the loss."""

    is_column: ClassVar[bool] = True
    anchor_cap: ClassVar[float] = ANCHOR_CAP

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        n = self.numbers
        # A terminal value pulls without a cap: it alone stops a vector that drifts as a whole.
        cap = jnp.where(sample.terminated, jnp.maximum(n.cap, self.anchor_cap), n.cap)
        bounded = jnp.minimum(next_output, n.ceiling)
        v_next = jnp.where(sample.terminated, next_output, bounded)
        return stop_gradient(self.imbalance(output, v_next, sample.log_cost, cap)) * output


class Drogo(AbstractDrogo):
    """[exp(-r/lam) - exp(v(s') - v(s))] v(s), the bracket held constant, v(s_T) = 0.

    This is `NaturalGDO` without its penalty: the terminal states hold the vector in place instead.
    """


class ActionValues(AbstractDrogo):
    """[exp(-r/lam)/d(a|s) - exp(v(s') - x(s, a))] x(s, a), the bracket held constant, v(s_T) = 0.

    The network has an output x(s, a) for each action, and exp(v(s)) is the sum of exp(x(s, a)) over
    the actions. At the solution exp(x(s, a)) = d(a|s) E[exp(r/lam + v(s'))], where d is the default
    policy and the mean is over the next states of this very action. So it does not matter how often
    each action was taken: the data may come from any policy. The optimal policy of the linearly
    solvable MDP takes action a with the probability exp(x(s, a) - v(s)).
    """

    per_action: ClassVar[bool] = True

    def at_action(self, outputs: Array, action: Array | None) -> Array:
        assert action is not None
        return self.numbers.scale * jnp.take_along_axis(outputs, action[:, None], axis=1)[:, 0]

    def log_e(self, output: Any) -> Any:
        return logsumexp(self.numbers.scale * output, axis=-1)


OBJECTIVES: dict[str, type[AbstractObjective]] = {
    "gdo": GDO,
    "log_gdo": LogGDO,
    "natural_gdo": NaturalGDO,
    "drogo": Drogo,
    "q": ActionValues,
}
