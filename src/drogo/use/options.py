"""Options: policies over several steps, made from a map, and a wrapper that acts with them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.utils import RecordConstructorArgs
from jaxtyping import Bool, Float

from drogo import errors
from drogo.data.index import ObservationIndex
from drogo.errors import ArgumentError, ArgumentTypeError, NumericalError
from drogo.mdp import MDP, HasMDP
from drogo.mdp.arrays import as_floats
from drogo.use.shaping import number_of_actions

MOST_SWEEPS = 100_000
TOLERANCE = 1e-4  # Value iteration stops when no value changes by more than this share of `GAIN`.
GAIN = 1e-6  # The least gain, relative to the range of the vector, so that rounding leads nowhere.

Pairs = Float[np.ndarray, "states actions"]


@dataclass(frozen=True)
class Option:
    """A temporally extended action (Sutton, Precup and Singh, 1999).

    Its three parts are functions of one observation. `make_option` makes them from a potential.

    Args:
        policy: The primitive action that it takes.
        begins: Whether it may begin at an observation.
        ends: Whether it ends at an observation.
        name: Its name in error messages.
    """

    policy: Callable[[Any], int]
    begins: Callable[[Any], bool]
    ends: Callable[[Any], bool]
    name: str = "option"


@dataclass(frozen=True)
class FrozenMap:
    """The action values of a map at one point of its training, which do not change afterwards."""

    logits: Callable[[npt.ArrayLike], Float[np.ndarray, "n actions"]]
    """The log of the value of each action, up to a constant, for a batch of observations."""
    untried: Callable[[npt.ArrayLike], Bool[np.ndarray, "n actions"]]
    """The actions that had not been tried often enough, for a batch of observations."""
    is_done: bool  # Whether every action had been tried wherever the agent had been.


def make_option(
    world: HasMDP,
    potential: Any,
    *,
    method: str = "solve",
    discount: float = 0.99,
    name: str = "option",
) -> Option:
    """Makes an option from any function that gives states a value.

    With `method="solve"` the option solves its own problem exactly: a step from s to s' is worth
    `e(s') - e(s)`, discounted, and the option ends where nothing more can be gained. It crosses a
    valley if what lies behind it is worth the way. With `method="climb"` it follows the steepest
    ascent, in the mean if transitions are random, and ends at the first maximum.

    Args:
        world: An environment that knows its MDP, such as `gymnasium.make("drogo/FourRooms-v0")`.
        potential: A vector over its states, a `Potential`, a fit, or a function of a batch of
            observations.
        method: "solve" or "climb".
        discount: The discount of the option's own problem, for "solve".
        name: Its name in error messages.
    """
    errors.check_choice("method", method, ("solve", "climb"))
    if isinstance(world, gymnasium.Wrapper) and isinstance(world.unwrapped, HasMDP):
        world = world.unwrapped
    wanted = "an environment that knows its MDP, such as gymnasium.make('drogo/FourRooms-v0')"
    errors.check_type("world", world, HasMDP, wanted)
    observations, mdp = world.all_observations(), world.mdp
    if hasattr(potential, "potential"):
        potential = potential.potential()
    wanted = "a vector over the states, a potential, or a function of a batch of observations"
    errors.check_type("potential", potential, np.ndarray | Callable, wanted)
    given = potential if isinstance(potential, np.ndarray) else potential(observations)
    values = as_floats("potential", given)
    if values.shape != (mdp.n_states,) or not np.isfinite(values).all():
        wanted = f"give one finite number for each of {mdp.n_states} states."
        problem = f"the potential has shape {values.shape}; {wanted}"
        raise ArgumentError(problem, argument="potential")
    discount = errors.check_below_one("discount", discount)
    gain, least = _mean_after(mdp, values) - values[:, None], GAIN * (float(np.ptp(values)) or 1.0)
    gain[mdp.terminal] = 0.0
    q = gain if method == "climb" else _solve(mdp, gain, discount, least)
    action, ends = q.argmax(axis=-1), ~(q.max(axis=-1) > least)
    index = ObservationIndex(np.asarray(observations), name)
    if (index.rows(index.observations) != np.arange(len(index))).any():
        problem = "two states of the world have the same observation: no option distinguishes them."
        raise ArgumentError(problem, argument="world")

    def row(observation: Any) -> int:
        row = index.row(np.asarray(observation))
        if row < 0:
            problem = f"{observation!r} is none of the {len(index)} states of {name}."
            raise ArgumentError(problem, argument="observation")
        return row

    return Option(
        policy=lambda observation: int(action[row(observation)]),
        begins=lambda observation: not ends[row(observation)],
        ends=lambda observation: bool(ends[row(observation)]),
        name=name,
    )


def learned_option(online: Any, name: str = "option", seed: int = 0) -> Option:
    """Makes an option that leads to untried actions, according to the current state of a map.

    Its policy is greedy on the map, and it ends where some action was not tried: an optimistic map
    has its largest logits there. It may begin everywhere, unless everything was tried. Where it
    begins at its end, it takes one of the untried actions at random.

    The option keeps a snapshot of the map, which may continue to learn. A network may be wrong and
    lead in circles: give `OptionWrapper` a limit.

    Args:
        online: A `drogo.OnlineMap` or a `drogo.OnlineTable`, with `optimism`.
        name: Its name in error messages.
        seed: The seed of the choice among untried actions.
    """
    if not callable(getattr(online, "frozen", None)):
        problem = f"online is {online!r}; give a drogo.OnlineMap or a drogo.OnlineTable."
        raise ArgumentTypeError(problem, argument="online")
    frozen: FrozenMap = online.frozen()
    rng = np.random.default_rng(errors.check_whole("seed", seed, 0))

    def policy(observation: Any) -> int:
        batch = np.asarray(observation)[None]
        (untried,) = frozen.untried(batch)
        if untried.any():
            return int(rng.choice(np.flatnonzero(untried)))
        return int(frozen.logits(batch)[0].argmax())

    def ends(observation: Any) -> bool:
        return frozen.is_done or bool(frozen.untried(np.asarray(observation)[None]).any())

    return Option(policy, lambda observation: not frozen.is_done, ends, name)


class OptionWrapper(gymnasium.Wrapper, RecordConstructorArgs):
    """Offers options as further actions: a semi-Markov decision process for any agent.

    Action `n + k` is option k, where n is the number of primitive actions. It runs until it ends,
    the episode ends, or it has taken `limit` steps. The reward is the discounted sum of the rewards
    on the way: `r_1 + discount r_2 + ...`.

    `info["steps"]` is the number of steps of an action and `info["discount"]` is `discount **
    steps`, so `reward + info["discount"] max Q(s')` is the target of Q-learning. An agent with a
    fixed discount, such as those of Stable-Baselines3, applies it once to an action of any length.
    `info["option_cut"]` is True if the limit stopped an option, and `info["option_unavailable"]` if
    it may not begin where it was chosen: it then takes one step of its policy. `action_masks()`
    returns which actions are possible.

    Args:
        env: The environment. Its action space is Discrete.
        discount: The discount of the agent.
        limit: The largest number of steps of an option.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        options: Sequence[Option],
        discount: float = 0.99,
        *,
        limit: int = 100,
    ) -> None:
        RecordConstructorArgs.__init__(self, options=options, discount=discount, limit=limit)
        super().__init__(env)
        wanted = "a list of options, as make_option returns them"
        for option in errors.check_type("options", options, Sequence, wanted):
            errors.check_type("options", option, Option, wanted)
        self.options, self.primitive = list(options), number_of_actions(env.action_space, "env")
        self.discount = errors.check_share("discount", discount)
        self.limit = errors.check_whole("limit", limit, 1)
        self.action_space = gymnasium.spaces.Discrete(self.primitive + len(self.options))
        self._observation: Any = None

    def action_masks(self) -> Bool[np.ndarray, " actions"]:
        """Returns which actions are possible now: primitive ones, and options that may begin."""
        begin = [bool(option.begins(self._observation)) for option in self.options]
        return np.array([True] * self.primitive + begin)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self._observation, info = self.env.reset(**kwargs)
        return self._observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            most = self.primitive + len(self.options) - 1
            problem = f"action is {action!r}; give 0 to {most}: options begin at {self.primitive}."
            raise ArgumentError(problem, argument="action")
        chosen = int(action)
        option = None if chosen < self.primitive else self.options[chosen - self.primitive]
        unavailable = option is not None and not option.begins(self._observation)
        earned, worth, steps, is_over = 0.0, 1.0, 0, False
        terminated, truncated, info = False, False, {}
        while not is_over and steps < self.limit:
            move = chosen if option is None else int(option.policy(self._observation))
            # Some environments distinguish NumPy's numbers from Python's.
            move = np.int64(move) if isinstance(action, np.integer) else move
            self._observation, reward, terminated, truncated, info = self.env.step(move)
            earned += worth * float(reward)
            worth, steps = worth * self.discount, steps + 1
            is_over = unavailable or terminated or truncated
            is_over = is_over or option is None or bool(option.ends(self._observation))
        info = {**info, "steps": steps, "discount": worth, "option_cut": not is_over}
        info["option_unavailable"] = unavailable
        return self._observation, earned, terminated, truncated, info


def _solve(mdp: MDP, gain: Pairs, discount: float, least: float) -> Pairs:
    """Returns the action values of a problem of optimal stopping, by value iteration."""
    value, change = np.zeros(len(gain)), np.inf
    for _ in range(MOST_SWEEPS):
        q = np.where(mdp.terminal[:, None], 0.0, gain + discount * _mean_after(mdp, value))
        better = np.maximum(q.max(axis=-1), 0.0)
        change, value = float(np.abs(better - value).max()), better
        if change <= TOLERANCE * least * (1 - discount):
            return q
    problem = f"the values of an option still change by {change:.2g} after {MOST_SWEEPS} sweeps."
    remedy = f"The discount {discount} is too close to 1: give a smaller one."
    raise NumericalError(problem, remedy=remedy, argument="discount")


def _mean_after(mdp: MDP, values: Float[np.ndarray, " states"]) -> Pairs:
    """Returns the mean of a vector after each action in each state."""
    return np.stack([p @ values for p in mdp.transitions], axis=-1)
