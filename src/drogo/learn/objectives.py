"""The objectives: what a network is trained to minimise, and what its output then means.

| objective | output | gradient | what keeps it from collapsing | in the paper |
|---|---|---|---|---|
| `GDO` | e | plain | norm penalty | proposition 3.3 |
| `LogGDO` | log e | plain | norm penalty | proposition 3.4 |
| `NaturalGDO` | log e | natural | norm penalty | proposition 3.9 |
| `Drogo` | log e | natural | v(s_T) = 0 | theorem 3.13 |

An objective of your own is a subclass of `AbstractAnchored` or `AbstractPenalised` that implements
their abstract methods. Give the class to `fit(objective=...)`.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.lax import stop_gradient
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

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


class Sample(NamedTuple):
    """What a loss needs of one transition besides the network's outputs."""

    cost: Float[Array, "*n"]
    """exp(-r / lam)."""
    terminated: Bool[Array, "*n"]
    squared_norm: Float[Array, "*n"]
    """The mean of the squared entries over an independent batch (penalised objectives only)."""


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
    initial_output: ClassVar[float]
    """The output from which a table is trained."""

    @abc.abstractmethod
    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        """Returns the loss of one transition. Its gradient is what matters.

        Args:
            output: The network's output at s.
            next_output: The output at s', or the terminal value if s' is a terminal state that has
                one (see `next_output`).
            sample: The rest of the transition.
        """

    @abc.abstractmethod
    def next_output(self, output: Array, terminated: Array, terminal_value: Array) -> Array:
        """Returns the outputs at s' with terminal states treated as the objective demands.

        Args:
            output: The network's outputs at s'.
            terminated: Where s' is a terminal state.
            terminal_value: The rewards of these terminal states.
        """

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
    def unit(self, output: Array, cost: Array) -> Array:
        """Returns the unit of a state's residual: the size of the largest term in its equation."""


class AbstractLogObjective(AbstractObjective):
    """An objective whose output is v = log e."""

    initial_output: ClassVar[float] = 0.0

    def entry(self, output: Array) -> Array:
        return jnp.exp(output)

    def log_e(self, output: Any) -> Any:
        return output

    def unit(self, output: Array, cost: Array) -> Array:
        return cost


class AbstractAnchored(AbstractLogObjective):
    """An objective for v = log e whose terminal states have the value `terminal_value / lam`."""

    anchored: ClassVar[bool] = True
    needs_second_batch: ClassVar[bool] = False
    separable: ClassVar[bool] = True

    def next_output(self, output: Array, terminated: Array, terminal_value: Array) -> Array:
        return jnp.where(terminated, terminal_value / self.numbers.lam, output)

    def log_scale(self, log_e: Float[Array, " states"]) -> Scalar:
        return jnp.zeros((), dtype=log_e.dtype)


class AbstractPenalised(AbstractObjective):
    """An objective whose norm penalty keeps e from collapsing. Terminal states absorb."""

    anchored: ClassVar[bool] = False
    needs_second_batch: ClassVar[bool] = True

    def next_output(self, output: Array, terminated: Array, terminal_value: Array) -> Array:
        return output

    def log_scale(self, log_e: Float[Array, " states"]) -> Scalar:
        return logsumexp(2 * log_e) / 2  # e then has unit norm


class GDO(AbstractPenalised):
    """1/2 (u(s) - u(s'))^2 + exp(-r/lam) u(s)^2 + b (u(s)^2 - c)(u(s'')^2 - c).

    Summed over all transitions the first two terms are u'(I + R - P~)u (proposition 3.2). The third
    is an unbiased sample of b (u'u - c)^2, because s'' does not depend on s.
    """

    separable: ClassVar[bool] = False
    initial_output: ClassVar[float] = 1.0

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        u, n = output, self.numbers
        norm = n.penalty * (u**2 - n.target_norm) * (sample.squared_norm - n.target_norm)
        return 0.5 * (u - next_output) ** 2 + sample.cost * u**2 + norm

    def entry(self, output: Array) -> Array:
        return output

    def log_e(self, output: Any) -> Any:
        return jnp.log(jnp.maximum(jnp.abs(output), jnp.finfo(jnp.float32).tiny))

    def unit(self, output: Array, cost: Array) -> Array:
        return 2 * cost * jnp.abs(output)


class LogGDO(AbstractPenalised, AbstractLogObjective):
    """`GDO` of u = exp(v). Its gradient carries a factor exp(v), which is why it fails."""

    separable: ClassVar[bool] = False

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        return GDO(self.numbers).loss(jnp.exp(output), jnp.exp(next_output), sample)

    def unit(self, output: Array, cost: Array) -> Array:
        return 2 * cost * jnp.exp(2 * output)


class NaturalGDO(AbstractPenalised, AbstractLogObjective):
    """[exp(-r/lam) - exp(v(s') - v(s)) + b (exp(2 v(s'')) - c)] v(s), the bracket held constant.

    This is exp(-2v) times the gradient of `LogGDO` (the metric of proposition 3.5), sampled: the
    bracket is the s-th entry of exp(-v) (R - P) exp(v) + b (u'u - c) (propositions 3.7 and 3.8).
    The value of this surrogate means nothing; its gradient is the bracket times that of v(s).
    """

    separable: ClassVar[bool] = True

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        n = self.numbers
        ratio = jnp.exp(jnp.minimum(next_output - output, n.cap))
        bracket = sample.cost - ratio + n.penalty * (sample.squared_norm - n.target_norm)
        return stop_gradient(bracket) * output


ANCHOR_CAP = 20.0
"""The smallest cap at a terminal state: far above any solution, far below an overflow."""


class Drogo(AbstractAnchored):
    """[exp(-r/lam) - exp(v(s') - v(s))] v(s), the bracket held constant, v(s_T) = 0.

    This is `NaturalGDO` without its penalty: the terminal states hold the vector in place instead.
    """

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        n, v = self.numbers, output
        # A terminal value pulls without a cap: it alone stops a vector that drifts as a whole.
        cap = jnp.where(sample.terminated, jnp.maximum(n.cap, ANCHOR_CAP), n.cap)
        bounded = jnp.minimum(next_output, n.ceiling)
        v_next = jnp.where(sample.terminated, next_output, bounded)
        return stop_gradient(sample.cost - jnp.exp(jnp.minimum(v_next - v, cap))) * v


OBJECTIVES: dict[str, type[AbstractObjective]] = {
    "gdo": GDO,
    "log_gdo": LogGDO,
    "natural_gdo": NaturalGDO,
    "drogo": Drogo,
}
