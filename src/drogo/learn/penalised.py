"""The methods whose vectors are held in place by a penalty on their norm.

| method | network's output | gradient | held in place by | from |
|---|---|---|---|---|
| `GDO` | e | plain | penalty on <u_i, u_j> - c [i = j] | proposition 3.3; Wu et al. 2019 |
| `LogGDO` | log e | plain | norm penalty | proposition 3.4 |
| `NaturalGDO` | log e | natural | norm penalty | proposition 3.9 |
| `GGDO` | several e | plain | that of `GDO` for the first, the first two, ... | Wang et al. 2021 |
| `ALLO` | several e | plain | multipliers and a penalty on u_i for j <= i | Gomez et al. 2024 |

`GDO`, `GGDO` and `ALLO` learn several eigenvectors u_i, one for each output of the network: they
minimise the sum of the energies u_i' M u_i of the problem's matrix M under the penalty. `GDO` finds
their subspace, the others each vector.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.lax import stop_gradient
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from drogo.data import Transitions
from drogo.errors import check_positive
from drogo.learn.architectures import AbstractArchitecture
from drogo.learn.method import AbstractCapped, AbstractMethod, Sample, Scalar
from drogo.learn.settings import Swept, check_fields, optional

Vectors = Float[Array, " vectors"]
Products = Float[Array, "vectors vectors"]


class AbstractPenalised(AbstractMethod):
    """A method whose norm penalty keeps e from collapsing. Terminal states absorb."""

    penalty: Swept = None  # pyright: ignore[reportAssignmentType]
    """The weight b of the penalty. By default 1; for several vectors twice the largest eigenvalue
    of the exact solution of the data and at least 0.3, relative to the mean diagonal of the
    matrix."""
    target_norm: Swept = 1.0
    """The value c at which the penalty holds the mean of the squared entries."""
    delta: float = eqx.field(static=True, default=0.001)
    """The cost of one step in an absorbing terminal state."""

    host_only: ClassVar[tuple[str, ...]] = (*AbstractMethod.host_only, "delta")
    anchored: ClassVar[bool] = False
    needs_moment: ClassVar[bool] = True
    separable: ClassVar[bool] = False

    def __check_init__(self) -> None:
        positive = {"target_norm": check_positive, "delta": check_positive}
        check_fields(self, penalty=optional(check_positive), **positive)

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
        energy = often @ sample.energy(output, next_output)
        return energy + self.penalty * (both * products).sum()


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
        bracket = self.imbalance(output, next_output, sample.log_cost)
        bracket += norm * jnp.exp(-sample.log_cost) if self.scaled else norm
        return stop_gradient(bracket) * output
