"""`AbstractMethod`: the loss of one transition, and the settings of training with it."""

import abc
import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.lax import stop_gradient
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from drogo.data import Transitions
from drogo.errors import Count, Flag, NotNegative, at_least, check_fields, check_positive, optional
from drogo.learn.architectures import CNN, MLP, AbstractArchitecture, Optimiser, Table
from drogo.learn.settings import Swept

Scalar = Float[Array, ""]
BatchSize = Annotated[int | str, optional(at_least(1), "all")]
BYTES_IN_RESULT = 2**28
"""Bytes of observations that are evaluated as a whole and that a solution keeps."""
ROWS_AT_ONCE = 4000  # An update evaluates a table of at most this many observations as a whole.
MANY_IMAGES = 500
"""From this many images of one scene on, an MLP is as good as the CNN and thirty times faster."""
PASSES, FEWEST_UPDATES = 200, 3000
"""If states do not repeat, training makes at most this many passes over vectors of numbers, because
more overfit, and at least this many updates."""
LARGEST_EXPONENT = 80.0
"""The largest -r / lam: single precision holds exp(88), and an optimiser multiplies it."""


class Sample(NamedTuple):
    """The inputs of a loss besides the network's outputs, for one transition."""

    problem: Any
    """The problem, whose numbers are arrays."""
    log_cost: Scalar
    """-r / lam. With a value for each action, minus the log of the default policy's probability."""
    terminated: Bool[Array, ""]
    moment: Float[Array, "..."]
    """A mean over an independent batch: of the squared entries, or of the products of any two
    vectors; for a task that never ends, of v. Zero unless the method asks for it."""
    extra: Float[Array, "..."] | None
    """Numbers that are trained beside the network: the log of an eigenvalue, or multipliers."""
    scale: Scalar
    """The factor from the network's raw outputs to the values."""
    ceiling: Scalar
    """An upper bound of every value, or infinity."""

    @property
    def cost(self) -> Scalar:
        """exp(-r / lam)."""
        return jnp.exp(self.log_cost)

    def energy(self, output: Array, next_output: Array) -> Array:
        """Returns a sample of u' M u of each vector u, for the problem's matrix M."""
        return self.problem.energy(output, next_output, self)


class AbstractMethod(eqx.Module):
    """A loss of one transition, and the settings of training with it. Its floating-point fields are
    arrays in a program, which sweeps a list in one of them; other fields are static."""

    updates: Count | None = eqx.field(static=True, default=None)
    """The number of updates. By default a number that suits the data."""
    batch_size: BatchSize | None = eqx.field(static=True, default=None)
    """The number of transitions in a batch, or "all" for all of them in every update. By default
    all if the table of states is small enough."""
    weigh_actions: Flag = eqx.field(static=True, default=True)
    """Weighs each action as the default policy takes it if states repeat, which removes the noise
    of sampled actions. Data of another policy are always weighed."""
    stop_early: Flag = eqx.field(static=True, default=True)
    """Stops once every value is far within the tolerance, if states repeat."""

    is_setting: ClassVar[bool] = True
    host_only: ClassVar[tuple[str, ...]] = ("updates", "batch_size", "weigh_actions", "stop_early")
    """Fields that compiled programs do not see, so that another value compiles nothing."""
    solves: ClassVar[tuple[str, ...]] = ()
    """The kinds of problems that the method solves."""
    anchored: ClassVar[bool] = True
    """Whether terminal states have a given value. Otherwise they absorb, at reward -delta."""
    needs_moment: ClassVar[bool] = False
    """Whether `Sample.moment` is used, which is estimated from a second batch."""
    needs_solution: ClassVar[bool] = False
    """Whether the exact solution of the data is needed to train."""
    separable: ClassVar[bool] = True
    """Whether the equation of a state involves only transitions that leave it."""
    initial: ClassVar[float | None] = 0.0
    """The first value of every entry of a table, or None for random ones."""
    finds_column: ClassVar[bool] = False
    """Whether the solution of `Column` is the exact one of the data."""

    per_action: ClassVar[bool] = False
    """Whether the network has an output for each action."""
    ordered: ClassVar[bool] = True
    """Whether each of several vectors is found by itself, and not their subspace alone."""

    # Fields of some methods, and what they are in the others.
    scaled: ClassVar[bool] = False
    emphasis: ClassVar[float | None] = 0.0
    target_rate: ClassVar[float] = 1.0
    terminal_fraction: ClassVar[float] = 0.0

    def __check_init__(self) -> None:
        check_fields(self)

    @property
    def name(self) -> str:
        """The name of the method, for tables, pictures and files."""
        return type(self).__name__

    @abc.abstractmethod
    def loss(self, output: Array, next_output: Array, sample: Sample) -> Scalar:
        """Returns the loss of one transition, of which only the gradient matters.

        Args:
            output: The value at s (for the action that was taken).
            next_output: The value at s'. At a terminal state of an anchored method it is given.
            sample: The rest of the transition.
        """

    def log_e(self, values: Any) -> Any:
        """Returns log |e|, up to a constant, by the network's values (of all actions, if so)."""
        return logsumexp(values, axis=-1) if self.per_action else values

    def entry(self, values: Array) -> Array:
        """Returns the entries of e for some values of the network."""
        return jnp.exp(self.log_e(values))

    def log_scale(self, log_e: Float[Array, " states"]) -> Scalar:
        """Returns the constant that is subtracted from log e over all states to fix its scale."""
        return jnp.zeros((), dtype=log_e.dtype)

    def unit(self, output: Array, log_cost: Array) -> Array:
        """Returns the unit of a residual, the largest term of a state's equation, by its values."""
        return jnp.ones_like(log_cost) if self.scaled else jnp.exp(log_cost)

    def equation(self) -> "AbstractMethod":
        """Returns the method whose equations are checked; another one for a regression."""
        return self

    def extra(self, problem: Any) -> Array | None:
        """Returns the first values of numbers that are trained beside the network, or None."""
        return None

    def recommended(self, data: Transitions, network: AbstractArchitecture) -> dict[str, Any]:
        """Returns settings that suit the data and the network, for the fields that are None."""
        images = isinstance(network, CNN)
        if is_small(data) and len(data.observations) <= rows_at_once(data, network):
            return {"updates": 4000 if images else 5000, "batch_size": "all"}
        most = 15_000
        if not data.repeats and data.observations.ndim == 2:
            most = min(most, max(PASSES * len(data) // 1000, FEWEST_UPDATES))
        return {"updates": 3000 if images else most, "batch_size": 128 if images else 1000}

    def resolve(self, settings: Mapping[str, Any]) -> "AbstractMethod":
        """Returns the method with the fields that are None set as `recommended` says."""
        unset = {field.name for field in fields(self) if getattr(self, field.name) is None}
        return replace(self, **{k: value for k, value in settings.items() if k in unset})

    def network(self, data: Transitions) -> AbstractArchitecture:
        """Returns the network that suits the data."""
        if data.observations.ndim == 1:
            return Table()
        if data.observations.ndim == 4:
            return MLP() if is_small(data) and len(data.observations) > MANY_IMAGES else CNN()
        return MLP()

    def optimiser(self, data: Transitions, network: AbstractArchitecture) -> Optimiser:
        """Returns the optimiser that suits the data and the network."""
        if isinstance(network, Table):  # each value has to move by as much as the map is deep
            return Optimiser(step_size=0.05)
        if isinstance(network, CNN):  # larger steps occasionally disable a part of it for good
            return Optimiser(step_size=8e-4 if self.batch_size == "all" else 5e-4)
        return Optimiser()


class AbstractCapped(AbstractMethod):
    """A method whose residual has exp(v(s') - v(s)), held constant and capped."""

    cap: Annotated[Swept, optional(check_positive, "auto", math.inf)] = "auto"  # pyright: ignore
    """The largest v(s') - v(s) inside an exponential; inf for none, "auto" for one just above any
    that the solution can have. With a cap, `Drogo` bounds v(s') by the best terminal value."""
    scaled: Flag = eqx.field(static=True, default=True)  # pyright: ignore
    """Divides each residual by exp(-r / lam), so that costly states do not dominate and noisy data
    have a solution, and multiplies the outputs of `Drogo` by the map's expected depth."""
    emphasis: NotNegative | None = eqx.field(static=True, default=None)  # pyright: ignore
    """Weighs each state by this power of its residual, where every update uses all transitions. The
    solution does not change. By default 0.5 there, and 0 elsewhere."""

    def imbalance(
        self, output: Scalar, next_output: Scalar, sample: Sample, cap: Any = None
    ) -> Scalar:
        """Returns exp(-r/lam) - exp(v(s') - v(s)), or what the problem has, held constant."""
        log_cost = sample.log_cost
        shift = log_cost if self.scaled else jnp.zeros_like(log_cost)
        exponent = jnp.minimum(next_output - output - shift, self.cap if cap is None else cap)
        return stop_gradient(jnp.exp(log_cost - shift) - sample.problem.growth(exponent))

    def recommended(self, data: Transitions, network: AbstractArchitecture) -> dict[str, Any]:
        settings = super().recommended(data, network)
        whole = (self.batch_size or settings["batch_size"]) == "all"
        return {**settings, "emphasis": 0.5 if whole else 0.0}


def is_small(data: Transitions) -> bool:
    """Returns whether states repeat in a table of observations that fits into memory."""
    return data.repeats and data.observations.nbytes <= BYTES_IN_RESULT


def rows_at_once(data: Transitions, network: AbstractArchitecture) -> int:
    """Returns the number of observations that an update may evaluate as a whole."""
    cheap_images = data.observations.ndim == 4 and isinstance(network, MLP)
    return 2 * ROWS_AT_ONCE if cheap_images else ROWS_AT_ONCE
