"""`AbstractProblem`: the quantity that is sought, with its equation, exact solution and views.

`fit` asks a problem, in this order, for the transitions that it is about (`given`), for those to
learn from (`prepare`), their exact solution (`exact`), scales (`scaled`), batches and a `judge`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from drogo import errors
from drogo.data import DefaultPolicy, Transitions, under
from drogo.data.empirical import Chance, chance, partly_seen, times
from drogo.data.transitions import CountedEdges
from drogo.errors import ArgumentError, ArgumentTypeError, DamagedFile, Positive
from drogo.learn.architectures import AbstractArchitecture, Optimiser
from drogo.learn.method import AbstractMethod
from drogo.learn.networks import Outputs
from drogo.learn.settings import Swept
from drogo.mdp.costs import Costs, Judged, as_costs, judge

if TYPE_CHECKING:
    from drogo.learn.batches import Batches
    from drogo.learn.judge import Judge
    from drogo.learn.learner import Learner
    from drogo.learn.solution import Solution

Source = Transitions | CountedEdges
check_lam = errors.check_that(lambda lam: 0 < lam < 1e38, "positive, and less than 1e38")
"""Networks compute in single precision, which has no larger numbers."""


@dataclass(frozen=True)
class Prepared:
    """The transitions of a fit, weighed and checked."""

    data: Transitions  # The transitions that describe the problem.
    shown: Transitions
    """The transitions that are trained on, for example with absorbing terminal states."""
    notes: tuple[str, ...] = ()
    """Sentences about the data: assumptions, and what they do not determine."""
    complete: bool = True
    """Whether the data show every action in every visited state, and which ends are good."""
    sound: bool = True
    """Whether the observations, as far as the data tell, show all of the state."""
    costs: Costs | None = None
    """The costs by which rewards were judged, if these are not costs themselves."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else a problem keeps."""


class Point(NamedTuple):
    """One point of a sweep: the settings that some seeds share."""

    problem: Any
    method: Any  # The method, with every setting resolved.
    optimiser: Any
    prepared: Any = None  # The `Prepared` transitions. Those of another lam may differ.
    exact: Any = None  # The exact solution of the data, if it is known.
    scales: Mapping[str, Any] = {}  # The numbers of `Objective` that follow from the data.
    source: Any = None  # The `Source` of batches.


class AbstractProblem(eqx.Module):
    """A quantity of a Markov decision process that is computed or learned."""

    lam: Annotated[Swept, check_lam] = 20.0
    """Temperature lambda, in units of reward. Smaller values make the map more sensitive to it."""
    default_policy: DefaultPolicy | None = None
    """The policy that the map belongs to: one probability for each action, or a function
    `default_policy(observations, actions)` that returns the probability of each action of a batch
    (the density, for vectors). By default that of the environment's MDP if known, or uniform."""
    tolerance: Positive = eqx.field(static=True, default=0.1)
    """The largest difference of any value from the exact solution of the data in a converged fit,
    at least a thousandth and at most a twentieth of the map's depth. If no solution is known: the
    largest residual relative to exp(-r / lam)."""

    costs: Annotated[Any, as_costs] = eqx.field(static=True, default=None)
    """The `Costs` that steps and ends have, for rewards that are not all negative. By default the
    rewards of the data say them; a solution's problem has those that were used."""

    is_setting: ClassVar[bool] = True
    judged: ClassVar[tuple[str, ...]] = ("steps",)
    """Whether rewards say what `steps` cost, and which `ends` are good."""
    kind: ClassVar[str]
    """The name by which methods know the problem."""
    host_only: ClassVar[tuple[str, ...]] = ("default_policy", "tolerance", "costs")
    """Fields that compiled programs do not see, so that another value compiles nothing."""
    error_name: ClassVar[str] = "error"
    """The name of `Solution.error` in messages."""
    anchor_cap: ClassVar[float] = 20.0
    """The smallest cap of an exponent at a terminal state, far below an overflow."""
    shares_batches: ClassVar[bool] = True
    """Whether points of different lam have the same batches if `trained_on` is the same."""
    views: ClassVar[tuple[str, ...]] = ()
    """Methods of the problem that a solution offers as its own, bound to itself."""
    layout: ClassVar[Mapping[str, str]] = {}
    """The axes of each array of a solution, by which files are checked: axes with one name are
    equally long, and "..." stands for the axes of one observation."""
    optional: ClassVar[Mapping[str, str]] = {}
    """Likewise for further arrays, of which a solution has all or none."""
    rows: ClassVar[tuple[str, ...]] = ()
    """The arrays that hold rows of `observations`."""

    def __check_init__(self) -> None:
        errors.check_fields(self)
        policy = self.default_policy
        if policy is not None and not callable(policy):
            try:
                shares = np.asarray(policy, dtype=np.float64)
                if not (shares >= 0).all():
                    raise ValueError
            except (TypeError, ValueError, OverflowError):
                wrong = f"default_policy is {policy!r}; give probabilities or a function."
                raise ArgumentTypeError(wrong, argument="default_policy") from None
            object.__setattr__(self, "default_policy", shares)

    # On the device

    def outputs(self, method: AbstractMethod, n_actions: int | None) -> Outputs:
        """Returns the number of outputs that a network needs."""
        if not method.per_action:
            return "scalar"
        if n_actions is None:
            wrong = "action_values=True needs discrete actions, and these transitions have none."
            remedy = "Give action= and n_actions= to Transitions.from_arrays."
            raise ArgumentError(wrong, remedy=remedy, argument="action_values")
        return n_actions

    def initial(self, method: AbstractMethod) -> float | None:
        """Returns the first value of every entry of a table, or None for random ones."""
        return method.initial

    def extra(self) -> Array | None:
        """Returns the first values of numbers that are trained beside the network, or None."""
        return None

    def learns_gain(self, method: AbstractMethod) -> bool:
        """Returns whether an eigenvalue is learned beside the map."""
        return False

    def growth(self, exponent: Array) -> Array:
        """Returns the function of r/lam + v(s') - v(s) whose mean is 1 at the solution."""
        return jnp.exp(exponent)

    def energy(self, output: Array, next_output: Array, sample: Any) -> Array:
        """Returns a sample of u' M u for each vector u, for the problem's matrix M."""
        raise ArgumentError(f"{type(self).__name__} has no matrix, as a penalised method needs.")

    # Recommendations, for some transitions

    @abc.abstractmethod
    def recommend(self, data: Transitions) -> AbstractMethod:
        """Returns the method that suits the data."""

    def recommended(
        self, data: Transitions, method: AbstractMethod, network: AbstractArchitecture
    ) -> dict[str, Any]:
        """Returns settings for the fields of a method that are None."""
        return method.recommended(data, network)

    def network(self, data: Transitions, method: AbstractMethod) -> AbstractArchitecture:
        """Returns the network that suits the data."""
        return method.network(data)

    def adapted_network(
        self, network: AbstractArchitecture, method: AbstractMethod
    ) -> AbstractArchitecture:
        """Returns the network of the user, checked, with settings that follow from the method."""
        if network.pairs:
            raise ArgumentError(f"network is {network!r}, which is for Goals.", argument="network")
        return network

    def optimiser(
        self, data: Transitions, method: AbstractMethod, network: AbstractArchitecture
    ) -> Optimiser:
        """Returns the optimiser that suits the data."""
        return method.optimiser(data, network)

    # Learning

    def given(self, source: Any) -> Any:
        """Returns what a problem makes of the MDP or the transitions of `solve` or `fit`."""
        return source

    @property
    def changes_source(self) -> bool:
        """Whether `given` is overridden, so that the rewards of an environment are not its own."""
        return type(self).given is not AbstractProblem.given

    def weighed(
        self, data: Transitions, *, by_action: bool = False, always: bool = True
    ) -> Prepared:
        """Returns transitions with their costs, weighed like the default policy's by `under`."""
        said, over, outcome = Judged(None), data.terminated, data.outcome
        if self.judged and outcome is not None:
            said, ends = Judged(self.costs), "ends" in self.judged
            if self.costs is None:  # the rewards themselves say them
                said = judge(data.reward, over, outcome, times(data), judge_ends=ends)
            if said.costs is not None:
                reward, values = said.costs.of_steps(data.reward, over, outcome)
                values = values if ends else np.zeros(len(data))
                data = replace(data, reward=reward, terminal_reward=values, outcome=None)
        elif self.costs is not None:
            why = "the data have terminal rewards" if self.judged else "it judges no rewards"
            problem = f"costs of a {type(self).__name__} have no effect here, because {why}."
            raise ArgumentError(problem, remedy="Leave them out.", argument="costs")
        weighed, notes = under(data, self.default_policy, by_action=by_action, always=always)
        found = chance(data)
        if found.several:
            note = self.of_chance(found)
            notes += [note] if note else []
        complete = partly_seen(weighed) == 0 and said.sure and not found.hidden
        notes = (*said.notes, *notes)
        return Prepared(weighed, weighed, notes, complete, not found.hidden, said.costs)

    def of_chance(self, found: Chance) -> str:
        """Returns what to say of actions with several outcomes."""
        if not found.hidden:
            return ""
        note = f"{found.text} Taken together, these depend on the step before: the observations of "
        note += "some do not show the whole state. This is a map of the observations, and no check "
        return f"{note}of it is one of the environment. Show more, for example by frame stacking."

    @abc.abstractmethod
    def prepare(self, data: Transitions, method: AbstractMethod) -> Prepared:
        """Returns the transitions to learn from, weighed like the default policy's."""

    def adapted(self, prepared: Prepared) -> Any:
        """Returns the problem with settings that follow from the data."""
        return self if prepared.costs is None else replace(self, costs=prepared.costs)

    @abc.abstractmethod
    def exact(self, prepared: Prepared, method: AbstractMethod) -> Any:
        """Returns the exact solution of the data, or None where it is not known."""

    @abc.abstractmethod
    def scaled(self, prepared: Prepared, point: Point) -> tuple[AbstractMethod, dict[str, float]]:
        """Returns the method with numbers that follow from the data, and those of `Objective`."""

    def trained_on(self, prepared: Prepared, point: Point) -> Source:
        """Returns the transitions to train on."""
        return prepared.shown

    def batches(
        self, prepared: Prepared, learner: Learner, seeds: list[int], point: Point
    ) -> Batches | None:
        """Returns another source of batches than `trained_on`, if there is one."""
        return None

    @abc.abstractmethod
    def judge(self, **parts: Any) -> Judge:
        """Returns the evaluation of the runs, from the fields of `drogo.learn.judge.Judge`."""

    def truth_shape(self, data: Transitions) -> tuple[int, ...]:
        """Returns the shape of a known answer that a fit to these transitions is compared with."""
        return (len(data.observations),)

    def completed(self, solution: Solution) -> Solution:
        """Returns a fresh solution of a fit with whatever follows from its arrays."""
        return solution

    # Solutions

    @abc.abstractmethod
    def solve(self, source: Any) -> Solution:
        """Returns the exact solution of an MDP, or of transitions whose states repeat."""

    @abc.abstractmethod
    def evaluate(self, solution: Solution, *arguments: Any) -> np.ndarray:
        """Returns the values at any observations, for every seed."""

    def value_fn(self, solution: Solution, seed: int) -> Callable[[Array], Array]:
        """Returns the values of one seed as a pure JAX function."""
        raise self._lacks("value_fn")

    def potential(self, solution: Solution, seed: int, **options: Any) -> Any:
        """Returns a `Potential` of one seed."""
        raise self._lacks("potential")

    def goal_potential(self, solution: Solution, seed: int) -> float:
        """Returns the normalised potential of the goal, from which distances count."""
        raise self._lacks("distances to a goal: leave out goal_reward")

    def policy(self, solution: Solution, seed: int, **options: Any) -> Any:
        """Returns the `Policy` of one seed."""
        raise self._lacks("policy")

    def check_solution(self, solution: Solution) -> None:
        """Raises an error unless the arrays of a file fit together."""
        arrays, layout = solution.arrays, dict(self.layout)
        if any(name in arrays for name in self.optional):
            layout |= self.optional
        sizes: dict[str, Any] = {"seeds": len(solution.seeds), "2": 2}
        for name, axes in layout.items():
            shape, names = arrays[name].shape, axes.split()
            if "..." in names:
                shape = (*shape[: len(names) - 1], shape[len(names) - 1 :])
            pairs = zip(names, shape, strict=False)
            expected = [sizes.setdefault(axis, size) for axis, size in pairs]
            if len(names) != len(shape) or expected != list(shape):
                raise DamagedFile(f"its {name} has the shape {shape}, not ({', '.join(names)}).")
        for name in self.rows:
            rows = arrays.get(name, np.zeros(0, dtype=int))
            whole = rows.dtype.kind in "iu"
            if not (whole and ((rows >= 0) & (rows < len(solution.observations))).all()):
                raise DamagedFile(f"its {name} are not among its observations.")

    def _lacks(self, view: str) -> ArgumentError:
        return ArgumentError(f"a solution of {type(self).__name__} has no {view}.")
