"""Networks and optimisers as settings, and functions that build them."""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, PRNGKeyArray

from drogo import errors
from drogo.device import to_device
from drogo.errors import ArgumentError, ArgumentTypeError, BelowOne, DamagedFile, Flag, Positive
from drogo.learn import networks
from drogo.learn.convolution import ConvolutionalNetwork
from drogo.learn.networks import AbstractNetwork, Inputs, Outputs, dense_layers, fit_inputs
from drogo.learn.settings import Swept

MOST_COORDINATES = 16  # Longer observations are not coordinates and get no Fourier features.
MOST_BYTES_BY_PIXEL = 2**28  # Images of a larger table are not normalised pixel by pixel.
Units = Annotated[int, errors.at_least(1, 2**16)]
Frequencies = Annotated[int, errors.at_least(0, 2**16)]


@dataclass(frozen=True)
class Optimiser:
    """An optimiser of optax with its defaults, clipping, and a schedule of the step size."""

    name: str = "adam"
    """Either "adam" or "rmsprop"."""
    step_size: Annotated[Swept, errors.check_positive] = 1e-3
    """The step size before the schedule."""
    schedule: str = "cosine"
    """Either "constant", or "cosine", which ends at 0."""
    clip_norm: Positive = 0.5
    """The largest global norm of a gradient. Larger gradients are scaled down to it."""

    is_setting: ClassVar[bool] = True

    def __post_init__(self) -> None:
        errors.check_choice("name", self.name, ("adam", "rmsprop"))
        errors.check_choice("schedule", self.schedule, ("constant", "cosine"))
        errors.check_fields(self)

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        """Returns the transformation, with the step size as an argument of every update."""
        return _transformation(self.name, self.clip_norm)

    def step_sizes(self, updates: int) -> Float[np.ndarray, " updates"]:
        """Returns the factor of the step size at each of this number of updates."""
        if self.schedule == "constant":
            return np.ones(updates)
        return (1 + np.cos(np.pi * np.arange(updates) / updates)) / 2


@dataclass(frozen=True)
class CustomOptimiser:
    """An optax transformation of the user."""

    given: optax.GradientTransformation
    step_size: ClassVar[float] = 1.0
    schedule: ClassVar[str] = "constant"
    step_sizes = Optimiser.step_sizes

    def transformation(self) -> optax.GradientTransformationExtraArgs:
        return optax.with_extra_args_support(self.given)


AnyOptimiser = Optimiser | CustomOptimiser


def as_optimiser(given: Any) -> AnyOptimiser:
    """Returns an argument of the user as an optimiser."""
    if isinstance(given, AnyOptimiser):
        return given
    if isinstance(given, optax.GradientTransformation):
        return CustomOptimiser(given)
    wanted = "drogo.learn.Optimiser() or one of optax"
    return errors.check_type("optimiser", given, AnyOptimiser, wanted)


@lru_cache
def _transformation(name: str, clip_norm: float) -> optax.GradientTransformationExtraArgs:
    """Returns the same object every time, so that a second fit compiles nothing. The step size is
    an argument of every update, so that no schedule is compiled."""

    def scaled(updates: Any, state: Any, *_: Any, step_size: Any = None, **__: Any) -> Any:
        return jax.tree.map(lambda change: -step_size * change, updates), state

    scale = {"adam": optax.scale_by_adam, "rmsprop": optax.scale_by_rms}[name]
    by_step_size = optax.GradientTransformationExtraArgs(optax.init_empty_state, scaled)
    return optax.chain(optax.clip_by_global_norm(clip_norm), scale(), by_step_size)


class AbstractArchitecture(abc.ABC):
    """A network as settings."""

    is_setting: ClassVar[bool] = True
    pairs: ClassVar[bool] = False
    """Whether the network takes a state and a goal."""

    def __post_init__(self) -> None:
        errors.check_fields(self)

    def inputs(self, observations: np.ndarray) -> Inputs:
        """Returns the preprocessing that suits a table of observations."""
        return fit_inputs(observations, normalise=True, by_pixel=self.pairs)

    @abc.abstractmethod
    def build(self, example: np.ndarray, outputs: Outputs, key: PRNGKeyArray) -> AbstractNetwork:
        """Returns a network with fresh parameters for such a batch of preprocessed observations."""


@dataclass(frozen=True)
class Table(AbstractArchitecture):
    """One entry for each state, where observations are state numbers."""

    def inputs(self, observations: np.ndarray) -> Inputs:
        if observations.ndim != 1 or not np.issubdtype(observations.dtype, np.integer):
            wrong = f"a table needs state numbers, not {observations.dtype}."
            raise ArgumentError(wrong, argument="network")
        return Inputs(states=np.unique(observations))

    def build(self, example: np.ndarray, outputs: Outputs, key: PRNGKeyArray) -> AbstractNetwork:
        raise DamagedFile("its table has no state numbers.")  # `build_network` builds all others


@dataclass(frozen=True)
class MLP(AbstractArchitecture):
    """Dense layers of rectified units on the flattened observation."""

    width: Units = 128
    """The number of units in each hidden layer."""
    depth: Units = 4
    """The number of hidden layers."""
    frequencies: Frequencies = 8
    """The number of Fourier features of each coordinate, for observations of at most 16 numbers."""
    leak: BelowOne = 0.0
    """The slope of units that are off. With 0, large steps can turn all units off for good."""
    normalise: Flag = True
    """Shifts and scales vectors of numbers to [-0.5, 0.5] if some are outside [-1, 1] or hardly
    vary. Images are normalised pixel by pixel, without the pixels that never change."""
    centred: Flag = False
    """Subtracts the mean of each number in place of the middle of its range, in maps that learn
    online: several times as fast for images of one scene, which differ in a few pixels."""

    def inputs(self, observations: np.ndarray) -> Inputs:
        by_pixel = observations.nbytes <= MOST_BYTES_BY_PIXEL
        return fit_inputs(observations, normalise=self.normalise, by_pixel=by_pixel)

    def build(self, example: np.ndarray, outputs: Outputs, key: PRNGKeyArray) -> AbstractNetwork:
        layers = (self.width, self.depth, outputs, self.leak)
        return networks.DenseNetwork(*_size(self, example), key, *layers)


@dataclass(frozen=True)
class CNN(AbstractArchitecture):
    """Three convolutions, two of them with pooling, and dense layers, as in the paper."""

    width: Units = 128
    """The number of units in each hidden dense layer."""
    depth: Units = 1
    """The number of hidden dense layers."""

    def build(self, example: np.ndarray, outputs: Outputs, key: PRNGKeyArray) -> AbstractNetwork:
        shape = example.shape[1:]
        if len(shape) != 3 or min(shape[:2]) < 4:
            wrong = f"a CNN needs images of at least 4 x 4 x 1, not {shape}."
            raise ArgumentError(wrong, argument="network")
        return ConvolutionalNetwork(shape, key, self.width, self.depth, outputs)


@dataclass(frozen=True)
class AbstractPairArchitecture(AbstractArchitecture):
    """A network of a state and a goal."""

    width: Units = 256
    """The number of units in each hidden layer."""
    depth: Units = 2
    """The number of hidden layers that see one observation alone."""
    frequencies: Frequencies = 8
    """The number of Fourier features of each coordinate, for observations of at most 16 numbers."""

    pairs: ClassVar[bool] = True

    def _encoder(self, example: np.ndarray, outputs: int, key: PRNGKeyArray) -> tuple[Any, int]:
        """Returns the layers that see one observation alone, and their Fourier frequencies."""
        size, frequencies = _size(self, example)
        sizes = [size * (1 + 2 * frequencies), *[self.width] * self.depth]
        return dense_layers(sizes, outputs, jax.random.split(key, self.depth + 1)), frequencies


@dataclass(frozen=True)
class Quasimetric(AbstractPairArchitecture):
    """Minus an interval quasimetric embedding: its values satisfy the triangle inequality."""

    components: Units = 32
    """The number of components of the quasimetric."""
    length: Units = 8
    """The number of intervals in each component."""

    def build(self, example: np.ndarray, outputs: Outputs, key: PRNGKeyArray) -> AbstractNetwork:
        if outputs != "scalar":
            wrong = "a quasimetric has no action values. Use drogo.learn.PairMLP()."
            raise ArgumentError(wrong, argument="network")
        layers, frequencies = self._encoder(example, self.components * self.length, key)
        return networks.QuasimetricNetwork(frequencies, layers, jnp.zeros(()), self.components)


@dataclass(frozen=True)
class PairMLP(AbstractPairArchitecture):
    """Dense layers on each of a state and a goal, and then on both."""

    negative: Flag | None = None
    """Keeps outputs below 0 by construction, which is the default where values are not known."""

    def build(self, example: np.ndarray, outputs: Outputs, key: PRNGKeyArray) -> AbstractNetwork:
        first, second, third = jax.random.split(key, 3)
        of_state, frequencies = self._encoder(example, self.width, first)
        of_goal, _ = self._encoder(example, self.width, second)
        layers = dense_layers([self.width] * 2, outputs, jax.random.split(third))
        return networks.PairDense(frequencies, of_state, of_goal, layers, bool(self.negative))


@dataclass(frozen=True)
class Custom(AbstractArchitecture):
    """A network of the user."""

    given: eqx.Module | Callable[[PRNGKeyArray], eqx.Module]
    """A module from a batch of observations to outputs, or a function from a key to one."""

    is_setting: ClassVar[bool] = False

    def build(self, example: np.ndarray, outputs: Outputs, key: PRNGKeyArray) -> AbstractNetwork:
        try:
            module: Any = self.given if isinstance(self.given, eqx.Module) else self.given(key)
        except Exception as error:
            problem = f"network failed for a JAX key ({error!r})."
            raise ArgumentError(problem, argument="network") from error
        if isinstance(module, AbstractNetwork):
            return module
        if not isinstance(module, eqx.Module) or not callable(module):
            wrong = f"network gave {module!r}; give a callable equinox.Module."
            raise ArgumentTypeError(wrong, argument="network")
        numbers = to_device(np.repeat(example, 3, axis=0))
        try:
            out = eqx.filter_eval_shape(module, numbers)
        except Exception as error:
            wrong = f"network failed on a batch of shape {numbers.shape} ({error!r})."
            remedy = "A module for single observations needs jax.vmap."
            raise ArgumentError(wrong, remedy=remedy, argument="network") from error
        expected = (3,) if outputs == "scalar" else (3, outputs)
        if getattr(out, "shape", None) != expected:
            shape = getattr(out, "shape", type(out).__name__)
            wrong = f"network returned {shape} for a batch of 3; it must be {expected}."
            raise ArgumentError(wrong, argument="network")
        return networks.CustomNetwork(module)


def as_architecture(given: Any) -> AbstractArchitecture:
    """Returns an argument of the user as an architecture."""
    if isinstance(given, AbstractArchitecture):
        if any(isinstance(value, list) for value in vars(given).values()):
            raise ArgumentError("networks are not swept. Fit each alone.", argument="network")
        return given
    takes_key = callable(given) and not isinstance(given, type)
    if isinstance(given, eqx.Module) or takes_key:
        return Custom(given)  # pyright: ignore[reportArgumentType]
    wanted = "an architecture such as drogo.learn.MLP(width=256), or a function from a JAX key to "
    wanted += "a module, such as lambda key: MyModule(key)"
    return errors.check_type("network", given, AbstractArchitecture, wanted)


def build_network(
    architecture: AbstractArchitecture,
    observations: np.ndarray,
    inputs: Inputs,
    outputs: Outputs,
    key: PRNGKeyArray,
    initial: float | None = 0.0,
) -> AbstractNetwork:
    """Returns a fresh network for observations like these; `initial` fills a table."""
    if observations.ndim != 2 and getattr(architecture, "frequencies", 0):
        architecture = replace(architecture, frequencies=0)  # pyright: ignore
    if inputs.states is None:
        return architecture.build(inputs(observations[:1]), outputs, key)
    shape = (len(inputs.states),) if outputs == "scalar" else (len(inputs.states), outputs)
    if initial is None:
        return networks.TableNetwork(jax.random.normal(key, shape))
    return networks.TableNetwork(jnp.full(shape, initial, dtype=jnp.float32))


def _size(part: Any, example: np.ndarray) -> tuple[int, int]:
    """Returns the size of a flattened observation, and the number of its Fourier frequencies."""
    are_coordinates = example.ndim == 2 and example.shape[1] <= MOST_COORDINATES
    return math.prod(example.shape[1:]), part.frequencies if are_coordinates else 0
