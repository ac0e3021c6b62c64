"""The methods. Terminal states hold the map of `Drogo`, `Paper` and `Regression` in place, and a
penalty on their norm the vectors of the others:

| method | network's output | gradient | penalty | from |
|---|---|---|---|---|
| `GDO` | e | plain | on <u_i, u_j> - c [i = j] | proposition 3.3; Wu et al. 2019 |
| `LogGDO` | log e | plain | on the norm | proposition 3.4 |
| `NaturalGDO` | log e | natural | on the norm | proposition 3.9 |
| `GGDO` | several e | plain | that of `GDO` for the first, the first two, ... | Wang et al. 2021 |
| `ALLO` | several e | plain | with multipliers, on u_i for j <= i | Gomez et al. 2024 |

`GDO`, `GGDO` and `ALLO` learn several eigenvectors u_i, one for each output of the network: they
minimise the sum of the energies u_i' M u_i of the problem's matrix M under the penalty. `GDO` finds
their subspace, the others each vector.
"""

import math
from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.lax import stop_gradient
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from drogo.data import Transitions
from drogo.errors import BelowOne, Flag, Positive, check_positive, check_that, optional
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
from drogo.learn.settings import Swept

Vectors = Float[Array, " vectors"]
Products = Float[Array, "vectors vectors"]
Rate = Annotated[float, check_that(lambda rate: 0 < rate <= 1, "above 0 and at most 1")]


class AbstractActionMethod(AbstractMethod):
    """A method that can learn one value for each action."""

    action_values: Flag | None = eqx.field(static=True, default=None)
    """Learns a value for each action, from data of any policy. By default where that is needed."""

    solves: ClassVar[tuple[str, ...]] = ("column", "goals", "continuing", "soft")
    finds_column: ClassVar[bool] = True

    @property
    def per_action(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return bool(self.action_values)


class Drogo(AbstractCapped, AbstractActionMethod):
    """The paper's objective (theorem 3.13): [exp(-r/lam) - exp(v(s') - v(s))] v(s), with the
    bracket held constant and v(s_T) = 0.

    With `action_values` the network has an output x(s, a) for each action, and exp(v(s)) is the sum
    of exp(x(s, a)). At the solution exp(x(s, a)) = d(a|s) E[exp(r/lam + v(s'))], where d is the
    default policy, so that it does not matter how often each action was taken. For `Soft` the
    bracket is x(s, a) - log d(a|s) - r/lam - v(s'), as in soft Q-learning.

    For a task that never ends, k, the log of the eigenvalue, is learned beside the map: with
    B = exp(k - r/lam) - exp(v(s') - v(s)) and the mean m of v, the loss is (B + m) v(s) + B k, with
    B and m held constant, similar to Wan, Naik and Sutton (2021).
    """

    target_rate: Rate | None = eqx.field(static=True, default=None)  # pyright: ignore
    """The Polyak rate of a target network that gives v(s'); 1 for none. By default 1 where every
    update uses all transitions, and 0.3 elsewhere."""
    terminal_fraction: BelowOne | None = eqx.field(static=True, default=None)  # pyright: ignore
    """The fraction of each batch that is sampled from transitions into terminal states, with
    weights that undo it. By default 0.1 where batches are sampled."""

    host_only: ClassVar[tuple[str, ...]] = (*AbstractMethod.host_only, "terminal_fraction")

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        # A terminal value pulls with a larger cap: it alone stops a map that drifts as a whole.
        anchor_cap = jnp.maximum(self.cap, sample.problem.anchor_cap)
        cap = jnp.where(sample.terminated, anchor_cap, self.cap)
        v_next = jnp.where(sample.terminated, next_output, jnp.minimum(next_output, sample.ceiling))
        if sample.extra is None:
            return self.imbalance(output, v_next, sample, cap) * output
        with_gain = sample._replace(log_cost=sample.log_cost + sample.extra)
        slope = self.imbalance(output, v_next, with_gain, cap)
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
        limit, images = rows_at_once(data, network), data.observations.ndim == 4
        updates = 4000 if images else 5000 if _has_many(data) else 2000
        whole = is_small(data) and len(data.observations) <= limit
        batch_size = "all" if whole else limit // 2
        return {"updates": updates, "batch_size": batch_size, "action_values": False}

    def network(self, data: Transitions) -> AbstractArchitecture:
        if data.observations.ndim == 1:
            return Table()
        return MLP(frequencies=64) if _has_many(data) else MLP()

    def optimiser(self, data: Transitions, network: AbstractArchitecture) -> Optimiser:
        if isinstance(network, CNN):
            return Optimiser(step_size=8e-4)
        if data.observations.ndim == 4:  # larger steps may leave images without a responding unit
            return Optimiser(step_size=2e-4)
        return super().optimiser(data, network)


class AbstractPenalised(AbstractMethod):
    """A method whose norm penalty keeps e from collapsing. Terminal states absorb."""

    penalty: Annotated[Swept, optional(check_positive, None)] = None  # pyright: ignore
    """The weight b of the penalty. By default 1; for several vectors twice the largest eigenvalue
    of the data's exact solution and at least 0.3, relative to the matrix's mean diagonal."""
    target_norm: Annotated[Swept, check_positive] = 1.0
    """The value c at which the penalty holds the mean of the squared entries."""
    delta: Positive = eqx.field(static=True, default=0.001)
    """The cost of one step in an absorbing terminal state."""

    host_only: ClassVar[tuple[str, ...]] = (*AbstractMethod.host_only, "delta")
    anchored: ClassVar[bool] = False
    needs_moment: ClassVar[bool] = True
    separable: ClassVar[bool] = False

    def log_scale(self, log_e: Float[Array, " states"]) -> Scalar:
        return logsumexp(2 * log_e) / 2  # e then has unit norm

    def recommended(self, data: Transitions, network: AbstractArchitecture) -> dict[str, Any]:
        return {**super().recommended(data, network), "penalty": 1.0}

    def excess(self, products: Products) -> Products:
        """Returns <u_i, u_j> - c [i = j]."""
        return products - self.target_norm * jnp.eye(len(products), dtype=products.dtype)


class AbstractLinear(AbstractPenalised):
    """A method whose outputs are the entries of one or several vectors themselves."""

    solves: ClassVar[tuple[str, ...]] = ("spectrum",)
    initial: ClassVar[float | None] = 1.0

    def entry(self, values: Array) -> Array:
        return values

    def log_e(self, values: Any) -> Any:
        return jnp.log(jnp.maximum(jnp.abs(values), jnp.finfo(jnp.float32).tiny))

    def unit(self, output: Array, log_cost: Array) -> Array:
        return 2 * jnp.exp(log_cost) * jnp.abs(output)


class GDO(AbstractLinear):
    """sum_i u_i' M u_i + b sum_ij (<u_i, u_j> - c [i = j])^2, sampled.

    For the single vector of `Column` the energy is 1/2 (u(s) - u(s'))^2 + exp(-r/lam) u(s)^2, the
    samples of u'(I + R - P~)u (proposition 3.2). A factor of the penalty is the mean of an
    independent batch, so that it is unbiased.
    """

    solves: ClassVar[tuple[str, ...]] = ("column", "spectrum")
    ordered: ClassVar[bool] = False

    def loss(self, output: Array, next_output: Array, sample: Sample) -> Scalar:
        u, moment = jnp.atleast_1d(output), jnp.atleast_2d(sample.moment)
        penalty = (self.excess(jnp.outer(u, u)) * self.excess(moment)).sum()
        return sample.energy(output, next_output).sum() + self.penalty * penalty


class GGDO(AbstractLinear):
    """The mean over l of `GDO` of the first l vectors. It is minimal for every l at once, so u_1 is
    the first eigenvector, u_1 and u_2 span the first two, and so on, which breaks the symmetry."""

    def loss(self, output: Vectors, next_output: Vectors, sample: Sample) -> Scalar:
        vectors = len(output)
        # u_i is among the first l for all l > i, and u_i u_j for all l > max(i, j).
        often = (vectors - jnp.arange(vectors)).astype(output.dtype) / vectors
        products = self.excess(jnp.outer(output, output)) * self.excess(sample.moment)
        both = jnp.minimum(often[:, None], often[None, :])
        return often @ sample.energy(output, next_output) + self.penalty * (both * products).sum()


class ALLO(AbstractLinear):
    """sum_i u_i' M u_i + sum_{j <= i} m_ij (<u_i, [u_j]> - c [i = j]) + b (the same)^2.

    Brackets hold u_j constant, so each vector is found as if the later ones were not there. The
    multipliers m_ij are trained beside the network to make the sum as large as possible. At the
    solution m_ii is -2 times the eigenvalue and the others are 0: the penalty biases nothing.
    """

    def extra(self, problem: Any) -> Array:
        return jnp.zeros((problem.vectors, problem.vectors))

    def loss(self, output: Vectors, next_output: Vectors, sample: Sample) -> Scalar:
        assert sample.extra is not None
        multipliers = jnp.tril(sample.extra)
        excess = jnp.tril(stop_gradient(self.excess(sample.moment)))
        pull = stop_gradient(multipliers) + 2 * self.penalty * excess
        products = output[:, None] * stop_gradient(output)[None, :]
        # The multipliers climb where the network descends.
        climb = (multipliers * excess).sum()
        return sample.energy(output, next_output).sum() + (pull * products).sum() - climb


class LogGDO(AbstractPenalised):
    """`GDO` of u = exp(v). Its gradient carries a factor exp(v), which is why it fails."""

    solves: ClassVar[tuple[str, ...]] = ("column",)

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        u, u_next = jnp.exp(output), jnp.exp(next_output)
        penalty = (u**2 - self.target_norm) * (sample.moment - self.target_norm)
        return sample.energy(u, u_next) + self.penalty * penalty

    def unit(self, output: Array, log_cost: Array) -> Array:
        return 2 * jnp.exp(log_cost + 2 * output)


class NaturalGDO(AbstractCapped, AbstractPenalised):
    """[exp(-r/lam) - exp(v(s') - v(s)) + b (exp(2 v(s'')) - c)] v(s), the bracket held constant.

    Its gradient is exp(-2v) times that of `LogGDO` (the metric of proposition 3.5), sampled: the
    bracket is the s-th entry of exp(-v) (R - P) exp(v) + b (u'u - c) (propositions 3.7 and 3.8).
    """

    solves: ClassVar[tuple[str, ...]] = ("column",)
    separable: ClassVar[bool] = True

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        norm = self.penalty * (sample.moment - self.target_norm)
        bracket = self.imbalance(output, next_output, sample)
        bracket += norm * jnp.exp(-sample.log_cost) if self.scaled else norm
        return stop_gradient(bracket) * output


def _has_many(data: Transitions) -> bool:
    return data.observations.ndim == 2 and len(data.observations) > ROWS_AT_ONCE
