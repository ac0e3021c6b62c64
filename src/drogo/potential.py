"""`Potential`: a number for every observation, from which shaping rewards are computed."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from drogo import errors
from drogo.data import arrays
from drogo.data.index import ObservationIndex
from drogo.data.transitions import Transitions
from drogo.errors import ArgumentError, check_choice, check_share
from drogo.files import as_path
from drogo.graph import Graph
from drogo.mdp.model import Neighbours, Vectors, mean_gap
from drogo.public import checked

Function = Callable[[np.ndarray], Any]  # Maps a batch of observations to one number for each.
NEAR = 1e-6
"""The largest difference of a table and a network that agree, relative to 1 or to the value."""


@checked
@dataclass(frozen=True)
class Potential:
    """A function of observations whose inputs and outputs are checked.

    It is called with a batch of observations; `at` takes a single one. `solution.potential()`
    returns the potential of a fit, and `from_states` makes one from a vector over states.

    Args:
        function: Computes the values of a batch of observations.
        shape: The shape of one observation, or None to accept any shape.
        discount: The discount that the potential was computed for, if it depends on one.
        name: The name of the potential in error messages.
        graph: Returns the function as a graph of elementary operations, for other frameworks.
    """

    function: Function
    shape: tuple[int, ...] | None = None
    discount: float | None = None
    name: str = "the potential"
    graph: Callable[[], Graph] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        errors.check_type("shape", self.shape, tuple | None, "the shape of an observation")
        if self.discount is not None:
            errors.check_share("discount", self.discount)

    def __call__(self, observations: Any) -> Float[np.ndarray, " batch"]:
        """Returns the values of a batch of observations: one finite number for each."""
        batch = arrays.real("observations", observations)
        self._check_shape(batch.shape[1:])
        values = self._values(batch)
        self._check_finite(values, batch)
        return values

    def at(self, observation: Any) -> float:
        """Returns the value of a single observation, a finite number."""
        array = arrays.real("observation", observation)
        self._check_shape(array.shape)
        (value,) = self._values(array[None]).tolist()
        if not math.isfinite(value):
            self._check_finite(np.array([value]), array[None])
        return value

    def shaped(
        self, rewards: Any, observations: Any, next_observations: Any, terminated: Any, *,
        discount: float, weight: float | None = None, terminal: str = "zero",
    ) -> Float[np.ndarray, "..."]:  # fmt: skip
        """Returns the shaped rewards of n recorded steps, such as a sample of any replay.

        Rewards have the shape (n,) or (n, 1). After the last step of an episode, its own last
        observation is the next one. Only terminal states count as `terminated`, and not a time
        limit. The `discount` is the agent's; `weight` and `terminal` are as in `PotentialShaping`.
        """
        self.check_discount(check_share("discount", discount))
        weight = None if weight is None else check_share("weight", weight)
        reward, over = arrays.real("rewards", rewards), arrays.real("terminated", terminated)
        phi, next_phi = self(observations), self(next_observations)
        numbers = arrays.numbers("rewards", reward.ravel(), reward.size)
        over = arrays.flags("terminated", over.ravel(), reward.size)
        if not len(phi) == len(next_phi) == len(over):
            sizes = f"{len(over)} rewards, {len(phi)} observations and {len(next_phi)} next ones"
            raise ArgumentError(f"there are {sizes}.", argument="observations")
        shaping = shaping_reward(phi, next_phi, over, discount=discount, terminal=terminal)
        return mix(numbers, shaping, weight).reshape(reward.shape)

    def to_torch(self) -> Any:
        """Returns the potential as a module of PyTorch, which needs no JAX.

        It takes one observation or a batch, of the type of the data, and gives single precision:
        NaN where a table has no value. Potentials of `Goals`, functions of Python and networks of
        your own cannot be translated.
        """
        return self._translated().to_torch()

    def to_onnx(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the same to a file of ONNX, from `observations` to the `potential` of each."""
        self._translated().to_onnx(as_path("path", path), overwrite=overwrite)

    def check_discount(self, discount: float) -> None:
        """Raises an error if the potential was made for another discount than the agent's."""
        if self.discount not in (None, discount):
            problem = f"discount is {discount}, but {self.name} was made for {self.discount}. "
            raise ArgumentError(f"{problem}Use the agent's for both.", argument="discount")

    @classmethod
    def from_states(
        cls,
        observations: np.ndarray,
        values: Float[np.ndarray, " states"],
        *,
        discount: float | None = None,
        name: str = "the potential",
        otherwise: "Potential | None" = None,
    ) -> "Potential":
        """Makes a potential from a vector over states.

        Args:
            observations: The observation of each state. It is recognised by its bytes.
            values: The value of each state.
            discount: The discount that the values were computed for, if they depend on one.
            name: The name of the potential in error messages.
            otherwise: The potential of all other observations. Without it they are an error.
        """
        index = ObservationIndex(observations, name)
        table, values = index.observations, arrays.real("values", values).astype(np.float64)
        if values.shape != table.shape[:1]:
            problem = f"values of shape {values.shape} do not fit {len(table)} observations."
            raise ArgumentError(problem, argument="values")
        first = index.rows(table)
        conflict = (values[first] != values) & (first != np.arange(len(table)))
        if conflict.any():
            at = int(conflict.argmax())
            problem = f"{name} has two values for observation {_short(table[at])}: "
            raise ArgumentError(f"{problem}{values[first[at]]}, {values[at]}.", argument="values")
        lookup = _Lookup(index, values, otherwise)
        return cls(lookup, table.shape[1:], discount, name, lookup.graph)

    def normalised(self, data: Transitions) -> "Potential":
        """Returns the potential divided by its mean difference between neighbours in the data."""
        return self.divided(float(mean_step(self(data.observations), data.neighbours)))

    def divided(self, scale: float) -> "Potential":
        """Returns the potential divided by a number."""
        return self._mapped(lambda values: values / scale, lambda graph: graph.then("Div", scale))

    def discounted(self, goal_reward: float, discount: float, *, goal: float = 0.0) -> "Potential":
        """Returns a normalised potential in the units of an agent with this discount that is
        rewarded at the goal alone, where the normalised potential is `goal`."""
        errors.check_positive("goal_reward", goal_reward)
        errors.check_number("goal", goal)
        if not 0 < errors.check_share("discount", discount) < 1:
            problem = f"discount is {discount}; it must be above 0 and below 1."
            raise ArgumentError(problem, argument="discount")
        rule = (goal_reward, discount, goal)

        def of_graph(graph: Graph) -> Graph:
            distance = graph.add("Max", graph.add("Sub", goal, graph.output), 0.0)
            graph.output = graph.add("Mul", graph.add("Pow", discount, distance), goal_reward)
            return graph

        phi = self._mapped(lambda values: discounted_value(values, *rule), of_graph)
        return replace(phi, discount=discount)

    def _mapped(self, change: Function, of_graph: Callable[[Graph], Graph]) -> "Potential":
        """Returns the potential with changed values, in both of its forms."""
        function, graph = self.function, self.graph
        return replace(
            self,
            function=lambda batch: change(np.asarray(function(batch))),
            graph=graph and (lambda: of_graph(graph())),
        )

    def _values(self, batch: np.ndarray) -> np.ndarray:
        values, expected = np.asarray(self.function(batch), dtype=np.float64), (len(batch),)
        if values.shape != expected:
            problem = f"{self.name} returned shape {values.shape} for a batch; expected {expected}."
            raise ArgumentError(problem, argument="potential")
        return values

    def _translated(self) -> Graph:
        if self.graph is None:
            problem = f"{self.name} is a function of Python, which cannot be translated."
            remedy = "Make it a table: Potential.from_states(states, potential(states))."
            raise ArgumentError(problem, remedy=remedy, argument="potential")
        return self.graph()

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if self.shape is not None and shape != self.shape:
            problem = f"takes observations of shape {self.shape}, and got one of shape {shape}."
            remedy = "Call it with a batch of observations, or its method `at` with a single one."
            raise ArgumentError(f"{self.name} {problem}", remedy=remedy, argument="observations")

    def _check_finite(self, values: np.ndarray, batch: np.ndarray) -> None:
        finite = np.isfinite(values)
        if not finite.all():
            first = int(finite.argmin())
            problem = f"{self.name} is {values[first]} at observation {_short(batch[first])}; a "
            raise ArgumentError(f"{problem}potential must be finite.", argument="potential")


@dataclass(frozen=True, repr=False)
class _Lookup:
    """The values of the observations of a table, and another potential for all others."""

    index: ObservationIndex
    values: Float[np.ndarray, " states"]
    otherwise: Potential | None

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        one = batch.shape[:1] == (1,)  # which is found in a tenth of the time
        rows = np.array([self.index.row(batch[0, ...])]) if one else self.index.rows(batch)
        values, unknown = self.values[rows], rows < 0
        if unknown.any():
            others = batch[unknown].astype(self.index.dtype)
            if self.otherwise is None:
                problem = f"observation {_short(others[0, ...])} is none of the {len(self.index)} "
                problem += f"states of {self.index.name}, which is of another environment or kind "
                raise ArgumentError(f"{problem}of observation.", argument="observations")
            values[unknown] = self.otherwise(others)
        return values

    def graph(self) -> Graph:
        """Returns a graph with the values of the table, as far as the other potential differs."""
        table, values = self.index.observations, self.values
        shown, other = self.index.rows(table) == np.arange(len(table)), self.otherwise
        graph = Graph(table.shape[1:], table.dtype) if other is None else other._translated()
        if other is not None and graph.output:
            gap = np.abs(values - other._values(table))
            shown &= ~(gap <= NEAR * np.maximum(1.0, np.abs(values)))
        if shown.any():
            graph.look_up(table[shown], values[shown])
        return graph


def shaping_reward(
    phi: Any, next_phi: Any, terminated: Any, *, discount: float, terminal: str = "zero"
) -> Any:
    """Returns the shaping reward `F = discount * phi(s') - phi(s)` of a step, or of several, where
    the potential of a terminal state counts as 0 unless `terminal` is "keep"."""
    if terminal == "zero":
        next_phi = np.where(terminated, 0.0, next_phi)[()]
    else:
        check_choice("terminal", terminal, ("zero", "keep"))
    return discount * next_phi - phi


def discounted_value(phi: Any, goal_reward: float, discount: float, goal: float = 0.0) -> Any:
    """Returns `goal_reward * discount**d`, the value of a reward at the goal alone. The distance d
    of a state is that of its normalised potential from that of the goal: a number of steps, of
    which an expensive one counts as several."""
    return goal_reward * discount ** np.maximum(goal - phi, 0.0)


def mix(reward: Any, shaping: Any, weight: float | None) -> Any:
    """Returns the reward `(1 - w) r + w F` of a step, or of several; without a weight `r + F`."""
    return reward + shaping if weight is None else (1 - weight) * reward + weight * shaping


def mean_step(values: Vectors, neighbours: Neighbours) -> Float[np.ndarray, "*seeds"] | np.float64:
    """Returns the mean absolute difference between neighbours of each vector over states. Divided
    by it, potentials have one scale, and the weights of their shaping rewards one meaning."""
    if len(neighbours) == 0:
        raise ArgumentError("no state has a neighbour, so a potential cannot be normalised.")
    step = mean_gap(values, neighbours)
    if not (np.isfinite(step) & (step > 0)).all():
        problem = f"the mean difference between neighbours is {np.min(step)}; a potential that is "
        raise ArgumentError(problem + "constant, or infinite somewhere, cannot be normalised.")
    return step


def normalised(values: Vectors, neighbours: Neighbours) -> Vectors:
    """Returns each vector over states, divided by its mean difference between neighbours."""
    return values / np.asarray(mean_step(values, neighbours))[..., None]


def _short(observation: np.ndarray) -> str:
    shape = f" (shape {observation.shape})" if observation.size > 8 else ""
    return np.array2string(observation.ravel()[:8], precision=4) + shape
