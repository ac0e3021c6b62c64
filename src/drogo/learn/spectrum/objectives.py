"""The objectives with several outputs: the leading eigenvectors of a matrix, all at once.

Each output of the network is one vector u_i. All objectives minimise the sum of u_i' M u_i while
the vectors stay orthogonal and of norm c, and differ in how these are held in place:

| objective | held in place by | finds | from |
|---|---|---|---|
| `SeveralGDO` | a penalty on <u_i, u_j> - c [i = j] | the subspace | Wu et al. 2019 |
| `GGDO` | the same for the first, the first two, ... of them | each vector | Wang et al. 2021 |
| `ALLO` | multipliers and a penalty on u_i for j <= i | each vector | Gomez et al. 2024 |

`M` is `D - P~` (the Laplacian), `I - discount P~` (the successor representation is its inverse, if
P is symmetric) or `R - P~` (the default representation). Products <u, w> are means over states.

Where states do not repeat, many of them may lead to a single one that is itself hardly ever left,
as at the wall of MountainCar. Then u' P~ u has no bound, and vectors run away to such states. There
`D - P~` takes the place of `I - P~`, where D has the row sums of P~, as in the Laplacian. It is the
same matrix if as many transitions lead to a state as leave it.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.lax import stop_gradient
from jaxtyping import Array, Float

from drogo.learn.networks import AbstractNetwork, Holding, Outputs
from drogo.learn.objectives import AbstractObjective, Numbers, Sample

Scalar = Float[Array, ""]
Vectors = Float[Array, " vectors"]
Products = Float[Array, "vectors vectors"]


class AbstractSeveral(AbstractObjective):
    """An objective whose outputs are the entries of several vectors.

    Args:
        numbers: The numbers of the objective.
        vectors: How many vectors.
        matrix: Which matrix; one of `drogo.exact.MATRICES`.
        discount: The discount, for the matrix "successor".
        bounded: Whether the row sums of P~ are on the diagonal in place of 1.
    """

    numbers: Numbers
    vectors: int = eqx.field(static=True)
    matrix: str = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    bounded: bool = eqx.field(static=True, default=False, kw_only=True)

    anchored: ClassVar[bool] = False
    needs_second_batch: ClassVar[bool] = True
    separable: ClassVar[bool] = False
    initial_output: ClassVar[float | None] = None
    ordered: ClassVar[bool] = True
    """Whether each vector is an eigenvector. Otherwise only their subspace is determined."""

    def outputs(self, n_actions: int | None) -> Outputs:
        return self.vectors

    def next_output(self, output: Array, terminated: Array, terminal_reward: Array) -> Array:
        return output

    def second_moment(self, outputs: Array, weight: Array) -> Products:
        return (weight[:, None] * outputs).T @ outputs

    def entry(self, output: Array) -> Array:
        return output

    def log_e(self, output: Any) -> Any:
        return jnp.log(jnp.maximum(jnp.abs(output), jnp.finfo(jnp.float32).tiny))

    def log_scale(self, log_e: Array) -> Array:
        return jnp.zeros((), dtype=log_e.dtype)

    def unit(self, output: Array, log_cost: Array) -> Array:
        return jnp.ones_like(log_cost)

    def energy(self, output: Vectors, next_output: Vectors, sample: Sample) -> Vectors:
        """Returns a sample of u_i' M u_i for each vector.

        Args:
            output: u(s).
            next_output: u(s').
            sample: The rest of the transition. It is `terminated` if it stands for the row of a
                terminal state, which is zero in the successor representation.
        """
        difference = 0.5 * (output - next_output) ** 2
        if self.matrix == "laplacian":
            return difference
        flow = output**2 - difference if self.bounded else output * next_output  # u' P~ u
        if self.matrix == "default":
            return sample.cost * output**2 - flow
        return output**2 - jnp.where(sample.terminated, 0.0, self.discount * flow)

    @abc.abstractmethod
    def loss(self, output: Vectors, next_output: Vectors, sample: Sample) -> Scalar:
        """Returns the loss of one transition.

        Args:
            output: u(s), an entry of each vector.
            next_output: u(s').
            sample: The rest of the transition. Its `squared_norm` is <u_i, u_j>, from an
                independent batch.
        """

    def excess(self, products: Products) -> Products:
        """Returns <u_i, u_j> - c [i = j]."""
        return products - self.numbers.target_norm * jnp.eye(self.vectors, dtype=products.dtype)


class SeveralGDO(AbstractSeveral):
    """sum_i u_i' M u_i + b sum_ij (<u_i, u_j> - c [i = j])^2, sampled."""

    ordered: ClassVar[bool] = False

    def loss(self, output: Vectors, next_output: Vectors, sample: Sample) -> Scalar:
        own = self.excess(jnp.outer(output, output))
        penalty = (own * self.excess(sample.squared_norm)).sum()
        return self.energy(output, next_output, sample).sum() + self.numbers.penalty * penalty


class GGDO(AbstractSeveral):
    """The mean over l of `SeveralGDO` of the first l vectors.

    Its minimum is the same for every l at once: u_1 alone must be the first eigenvector, u_1 and
    u_2 must span the first two, and so on. This breaks the symmetry under rotations.
    """

    def loss(self, output: Vectors, next_output: Vectors, sample: Sample) -> Scalar:
        number = jnp.arange(self.vectors)
        # u_i is among the first l for all l > i, and u_i u_j for all l > max(i, j).
        often = (self.vectors - number).astype(output.dtype) / self.vectors
        own = self.excess(jnp.outer(output, output)) * self.excess(sample.squared_norm)
        both = jnp.minimum(often[:, None], often[None, :])
        return often @ self.energy(output, next_output, sample) + self.numbers.penalty * (
            (both * own).sum()
        )


class ALLO(AbstractSeveral):
    """sum_i u_i' M u_i + sum_{j <= i} m_ij (<u_i, [u_j]> - c [i = j]) + b (the same)^2.

    Brackets hold u_j constant: only u_i moves to be orthogonal to the vectors before it, so that
    each of these is found as if the later ones were not there. The multipliers m_ij are trained
    beside the network to make the sum as large as possible. At the solution m_ii is -2 times the
    eigenvalue and the others are 0, so that nothing is biased by the penalty. They are
    `numbers.scale` times what is trained, so that they move at a pace of their own.
    """

    def hold(self, network: AbstractNetwork) -> AbstractNetwork:
        return Holding(network, jnp.zeros((self.vectors, self.vectors)))

    def loss(self, output: Vectors, next_output: Vectors, sample: Sample) -> Scalar:
        assert sample.held is not None
        multipliers = self.numbers.scale * jnp.tril(sample.held)
        excess = jnp.tril(stop_gradient(self.excess(sample.squared_norm)))
        pull = stop_gradient(multipliers) + 2 * self.numbers.penalty * excess
        held = output[:, None] * stop_gradient(output)[None, :]
        # The multipliers climb where the network descends.
        climb = (multipliers * excess).sum()
        return self.energy(output, next_output, sample).sum() + (pull * held).sum() - climb


SEVERAL: dict[str, type[AbstractSeveral]] = {"gdo": SeveralGDO, "ggdo": GGDO, "allo": ALLO}
"""The objectives of `fit(vectors=...)`, by name."""
