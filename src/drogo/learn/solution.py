"""`Solution`: the answer to a problem, with its status and its provenance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import optax
from jaxtyping import Array, Float

from drogo import errors
from drogo.data.arrays import MOST_ACTIONS
from drogo.data.step import as_key
from drogo.errors import ArgumentError, ArgumentTypeError, DamagedFile, DrogoError, counted, is_a
from drogo.files import Header, as_path, as_section, read_arrays, section, write_arrays
from drogo.learn.architectures import AbstractArchitecture, Optimiser, as_architecture, as_optimiser
from drogo.learn.learner import Learner, Objective, State, make_learner
from drogo.learn.method import AbstractMethod
from drogo.learn.networks import Inputs
from drogo.learn.problem import AbstractProblem
from drogo.learn.settings import CUSTOM, as_json, from_json
from drogo.learn.train import HISTORY, STATE, by_path, check_history, tree_from
from drogo.learn.value import Policy
from drogo.potential import Potential
from drogo.public import checked

KIND = "solution"
Settings = dict[str, Any]
STATUSES = {"converged", "unverified", "max_updates", "diverged"}
INPUTS, SCALES = "inputs/", "scales/"
SCALE_NAMES = ("scale", "extra_scale", "ceiling", "offset")
PLAIN = ("seeds", "status", "diverged_at", "notes", "provenance")
"""The fields that a file holds as they are."""
PARTS = {
    "problem": AbstractProblem,
    "method": AbstractMethod,
    "network": AbstractArchitecture,
    "optimiser": Optimiser,
}
MANY_AT_CAP = 0.02
FALLING = 0.05  # The share of its depth by which v may fall over the last quarter of training.


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The answer to a problem, for each seed: computed by `drogo.solve`, or learned by `drogo.fit`.

    The views `potential`, `policy` and `value_fn` depend on the problem, as do the attributes `v`,
    `observations` and its other arrays.
    """

    problem: Any
    """The problem that was solved."""
    method: Any
    """The method, with every setting resolved; None for an exact solution."""
    seeds: tuple[int, ...]
    status: tuple[str, ...]
    """For each seed:

    - "converged": every value is within the tolerance of the exact solution of the data; if that is
      not known, every equation holds within the tolerance.
    - "unverified": nothing is seen to be wrong, but it was not all checked. `diagnosis` says what:
      where states do not repeat, the equations of `Column` alone, and nothing of `Spectrum` and
      `Goals`; elsewhere the values are right for data that do not show every action or value.
    - "max_updates": neither is the case (also if a callback or Ctrl-C stopped the fit).
    - "diverged": a number became infinite.
    """
    error: Float[np.ndarray, " seeds"]
    """The largest difference of a value from the exact solution of the data, or the bound of an
    exact solver; of `Spectrum`, the largest distance of a cosine from 1, or the largest residual of
    an exact vector. Infinite if it is not known."""
    arrays: Mapping[str, np.ndarray] = field(repr=False)
    """The values and everything that belongs to them, by name."""
    history: Mapping[str, np.ndarray] = field(default_factory=dict)
    """`update` (logged,) and arrays (logged, seeds): the mean `loss` since the last row, NaN where
    a seed made no update; the mean (`violation`) and the largest (`worst`) absolute
    residual over all states, and their `spread` (where states do not repeat, `worst` is less three
    standard errors, and may be below the mean); `at_cap`, the share of transitions with v(s') -
    v(s) at the cap; `level`, the mean of v; the `error`, if it is known; and `cosine_NAME`,
    `difference_NAME` and `mean_difference_NAME` for each truth that was given."""
    diverged_at: tuple[int | None, ...] = ()
    """For each seed the update at which it diverged, or None."""
    network: Any = None
    """The network: an architecture, or that of the user."""
    optimiser: Any = None
    """The optimiser: a `drogo.learn.Optimiser`, or that of the user."""
    notes: tuple[str, ...] = ()
    """Sentences about the data: assumptions, and what they do not determine."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """A digest of the data and their `origin` (the environment, `key` and `reward` of `collect`),
    the number of actions, and the versions of the packages."""
    learner: Learner | None = field(default=None, repr=False)
    """The learner; None for an exact solution."""
    state: State | None = field(default=None, repr=False)
    """The state of training of all seeds, from which it can continue."""

    @classmethod
    def exact(
        cls,
        problem: Any,
        arrays: Mapping[str, np.ndarray],
        *,
        complete: bool,
        error: float = np.inf,
        notes: Sequence[str] = (),
        n_actions: int | None = None,
    ) -> "Solution":
        """Returns an exact solution, `complete` if all values are known, with its `error`."""
        status = ("converged" if complete else "unverified",)
        provenance = {"n_actions": n_actions, "repeats": True}
        rest = {"diverged_at": (None,), "notes": tuple(notes), "provenance": provenance}
        return cls(problem, None, (0,), status, np.array([error], np.float64), arrays, **rest)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("arrays", "problem"):
            raise AttributeError(name)
        if name in self.arrays:
            return self.arrays[name]
        if name in self.problem.views:
            return partial(getattr(self.problem, name), self)
        names = sorted({*self.arrays, *self.problem.views})
        problem = f"a solution of {type(self.problem).__name__} has no {name!r}; it has "
        remedy = "Draw it with drogo.plot.solution(solution)." if name == "plot" else ""
        raise AttributeError(f"{problem}{', '.join(names)}. {remedy}".rstrip())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.arrays, *self.problem.views]

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.status.count(s)} {s}" for s in sorted(set(self.status)))
        how = "exact" if self.method is None else f"{self.method.name}, {self.updates} updates"
        shape = " x ".join(map(str, self.v.shape[1:]))
        origin = self.provenance.get("origin", {})
        where = f", of {origin['env']}" if "env" in origin else ""
        return (
            f"Solution({type(self.problem).__name__}{where}, lam {self.problem.lam:g}, {how}, "
            f"{counted(len(self.seeds), 'seed')} x {shape} values, status: {counts})"
        )

    @property
    def updates(self) -> int:
        """The number of updates made."""
        return 0 if self.state is None else int(np.asarray(self.state.update).max())

    @property
    def n_actions(self) -> int | None:
        """The number of actions, if they are discrete and known."""
        return self.provenance.get("n_actions")

    def __call__(self, *observations: Any) -> Float[np.ndarray, "seeds ..."]:
        """Returns the values at any observations, also unseen ones."""
        n = 2 if self.problem.kind == "goals" else 1
        if len(observations) != n:
            problem = f"give {counted(n, 'batch')} of observations, not {len(observations)}."
            raise ArgumentTypeError(problem, argument="observations")
        return self.problem.evaluate(self, *observations)

    def value_fn(self, seed: int = 0) -> Callable[[Array], Array]:
        """Returns the values of one seed as a pure JAX function of one observation or a batch."""
        return self.problem.value_fn(self, seed)

    def potential(
        self,
        seed: int = 0,
        *,
        goal_reward: float | None = None,
        discount: float | None = None,
        **options: Any,
    ) -> Potential:
        """Returns the map of one seed as a potential for `PotentialShaping`.

        Args:
            seed: One of the seeds.
            goal_reward: The reward of an agent that is rewarded at the goal alone. The potential is
                then its discounted value, `goal_reward * discount**d`, where d is the distance to
                the goal: v relative to the mean difference between neighbours in the data.
            discount: The discount of that agent.
            **options: `normalised=False` not to divide by the mean difference between neighbours in
                the data; `goal=` for `Goals`, and `vector=` and `negated=` for `Spectrum`.
        """
        errors.check_flag("normalised", options.get("normalised", True))
        if goal_reward is None and discount is None:
            return self.problem.potential(self, seed, **options)
        if goal_reward is None or discount is None or not options.get("normalised", True):
            problem = "goal_reward and discount belong together, and to a normalised potential."
            raise ArgumentError(problem, argument="goal_reward")
        goal = self.problem.goal_potential(self, seed)
        phi = self.problem.potential(self, seed, **options)
        return phi.discounted(goal_reward, discount, goal=goal)

    def policy(self, seed: int = 0, **options: Any) -> Policy:
        """Returns the optimal policy that one seed has learned, with `goal=` for `Goals`."""
        policy = self.problem.policy(self, seed, **options)
        policy.key = as_key(self.provenance.get("origin", {}).get("key"))
        return policy

    def index(self, seed: int, *, usable: bool = False) -> int:
        """Returns the position of a seed in `seeds`. With `usable`, it must not have diverged."""
        if not is_a(seed, Integral) or seed not in self.seeds:
            raise ArgumentError(f"seed {seed} is none of {list(self.seeds)}.", argument="seed")
        k = self.seeds.index(seed)
        if usable and self.status[k] == "diverged":
            raise ArgumentError(f"seed {seed} diverged. Use another.", argument="seed")
        return k

    def diagnosis(self) -> list[str]:
        """Returns, for each seed that has not converged, the problem and a remedy."""
        lines = []
        for k, seed in enumerate(self.seeds):
            rows = {name: part[:, k] for name, part in self.history.items() if name != "update"}
            text = diagnose(rows, self.status[k], self.problem.error_name)
            lines += [f"seed {seed}: {text}"] if text else []
        return lines

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the solution to one `.npz` file, without Python objects: `drogo.load` is given a
        user's network, optimiser or method again. A file that is there is an error without
        `overwrite`."""
        arrays = {"error": self.error, **self.arrays} | as_section(HISTORY, self.history)
        if self.learner is not None:
            scales = {name: getattr(self.learner.objective, name) for name in SCALE_NAMES}
            arrays |= as_section(STATE, by_path(self.state)) | as_section(SCALES, scales)
            arrays |= as_section(INPUTS, vars(self.learner.inputs))
        settings = {name: as_json(getattr(self, name)) for name in PARTS}
        settings |= {name: getattr(self, name) for name in PLAIN}
        write_arrays(as_path("path", path), KIND, arrays, settings, overwrite=overwrite)


def diagnose(history: Mapping[str, np.ndarray], status: str, error: str = "error") -> str:
    """Returns the problem of one seed and a remedy, or an empty text if there is none."""
    if status == "converged":
        return ""
    if status == "diverged":
        return "diverged. Try target_rate=0.3 and cap='auto', or a smaller step_size."
    if status == "unverified":
        unknown = "the data do not show every action, or do not determine every value."
        if "error" in history or "violation" not in history:
            agrees = "the values agree with the exact solution of the data where that is known"
            return f"{agrees}, but {unknown}"
        if np.isnan(history["violation"][-1]):
            return "nothing was checked: states do not repeat, so there is no exact solution."
        checked = "no equation is seen to be violated, but no value was compared with anything"
        return f"{checked}: states do not repeat, or {unknown}"
    name, key = (error, "error") if "error" in history else ("residual", "worst")
    if key not in history:
        return "it has not converged; use more updates."
    parts = [f"the largest {name} is {history[key][-1]:.2g}, above the tolerance"]
    level = history["level"]
    fell = level[3 * (len(level) - 1) // 4] - level[-1]
    if fell > FALLING * abs(level[-1]):
        parts.append(
            f"v still falls (by {fell:.2g} over the last quarter). Use more updates, or, where "
            "terminal states anchor it, collect more transitions into them"
        )
    if "at_cap" in history and history["at_cap"][-1] > MANY_AT_CAP:
        parts.append(
            f"{history['at_cap'][-1]:.0%} of the transitions are at the cap, so some values are "
            "too high. Use more updates, Fourier features (frequencies) or a target_rate"
        )
    if len(parts) == 1:
        parts.append("more updates may help, or more data where states were seen seldom")
    return "; ".join(parts) + "."


def load(
    path: str | Path,
    *,
    problem: AbstractProblem | None = None,
    method: Any = None,
    network: Any = None,
    optimiser: Any = None,
) -> Solution:
    """Returns a saved solution, of any problem.

    Args:
        problem: The problem again, if a function in it is the user's own.
        method: The method again, if its class was not imported yet.
        network: The network that was given to `fit`, if it was the user's own.
        optimiser: The optax transformation that was given to `fit`. Without it the solution can be
            used but not continued.
    """
    path = as_path("path", path)
    given = {"problem": problem, "method": method, "network": network, "optimiser": optimiser}
    arrays, settings = read_arrays(path, KIND, _check_file)
    try:
        return _solution(arrays, settings, given)
    except DrogoError as error:
        raise type(error)(f"{path} cannot be loaded: {error}", argument=error.argument) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path} cannot be loaded: {error}") from error


def _check_file(settings: dict[str, Any], headers: dict[str, Header]) -> None:
    seeds, status, at = settings["seeds"], settings["status"], settings["diverged_at"]
    are_seeds = all(is_a(seed, Integral) and 0 <= seed < 2**32 for seed in seeds)
    if not are_seeds or not seeds or not len(seeds) == len(status) == len(at):
        raise ValueError(f"its seeds are {seeds}")
    if not set(status) <= STATUSES or not all(k is None or is_a(k, Integral) for k in at):
        raise ValueError(f"its status is {status}, and its seeds diverged at {at}")
    notes, provenance = settings["notes"], settings["provenance"]
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError(f"its notes are {notes}")
    if not isinstance(provenance, dict):
        raise ValueError("its provenance is missing")
    actions = provenance.get("n_actions")
    if actions is not None and not (is_a(actions, Integral) and 0 < actions <= MOST_ACTIONS):
        raise ValueError(f"its number of actions is {actions}")
    if headers["error"].shape != (len(seeds),):
        raise ValueError("its errors are not as many as its seeds")
    if section(headers, STATE):
        scales = section(headers, SCALES)
        shapes = {part.shape for name, part in scales.items() if name != "offset"}
        if set(scales) != set(SCALE_NAMES) or shapes != {()}:
            raise ValueError(f"its scales are {', '.join(scales)}")
        check_history(section(headers, HISTORY), len(seeds))


def _solution(arrays: dict[str, np.ndarray], settings: Settings, given: Settings) -> Solution:
    parts = {}
    for name, base in PARTS.items():
        is_custom = isinstance(settings[name], dict) and CUSTOM in settings[name]
        # Without its optimiser, a solution can be used and not continued.
        is_left_out = is_custom and name == "optimiser" and given.get(name) is None
        stored = None if is_left_out else settings[name]
        parts[name] = from_json(base, stored, given.get(name), name)
    learned = ("method", "network") if section(arrays, STATE) else ()
    missing = [name for name in ("problem", *learned) if parts[name] is None]
    if missing:
        raise DamagedFile(f"its {' and its '.join(missing)} is missing.")
    sections = (HISTORY, STATE, INPUTS, SCALES)
    named = {name: part for name, part in arrays.items() if not name.startswith(sections)}
    error = named.pop("error")
    plain: dict[str, Any] = {name: settings[name] for name in PLAIN}
    plain = {name: tuple(part) if isinstance(part, list) else part for name, part in plain.items()}
    history = section(arrays, HISTORY)
    solution = Solution(**parts, **plain, error=error, arrays=named, history=history)
    parts["problem"].check_solution(solution)
    if not learned:
        return solution
    scales, stored = section(arrays, SCALES), section(arrays, STATE)
    fits = scales["offset"].shape in ((), (solution.n_actions,))
    if not fits or any(np.isnan(number).any() for number in scales.values()):
        raise DamagedFile("a scale of its objective is not a number, or not one for each action.")
    optimiser = parts["optimiser"]
    if optimiser is None:
        optimiser = optax.identity()
        stored = {name: part for name, part in stored.items() if not name.startswith(".optimiser")}
    learner, params = make_learner(
        Objective(parts["problem"], parts["method"], **scales),
        as_architecture(parts["network"]),
        as_optimiser(optimiser),
        Inputs(**section(arrays, INPUTS)),
        SimpleNamespace(observations=arrays["observations"], n_actions=solution.n_actions),
        settings["seeds"],
    )
    state = tree_from(stored, jax.eval_shape(jax.vmap(learner.init), params))
    return replace(solution, learner=learner, state=state)
