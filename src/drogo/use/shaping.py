"""Shaped rewards: wrappers with a fixed potential, and the interface of shaping that learns.

The shaping reward of a step from s to s' is `F = discount * phi(s') - phi(s)`. With a `weight` w
the agent receives the mix `(1 - w) r + w F`, as in the paper; without a weight, `r + F`.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import Space
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array
from jaxtyping import Bool, Float, Int, Shaped

from drogo import errors
from drogo.data import arrays
from drogo.data.step import NumberOfStep, Step
from drogo.errors import ArgumentError, DataError, Positive, Share
from drogo.mdp.arrays import as_floats
from drogo.potential import Potential, mix, shaping_reward

HUGE = 1e6  # Wider ranges of observations are treated as unbounded.
View = Callable[[Any], Any]
Wrapped = TypeVar("Wrapped", gymnasium.Env, VectorEnv)


@dataclass(frozen=True)
class Shaping:
    """The rule by which a potential shapes rewards."""

    weight: Share | None = 0.5
    """The share of the shaping reward in the mix, or None to add it to the reward."""
    discount: Share = 0.99
    """The discount of the agent."""
    terminal: str = "zero"
    """Either "zero" or "keep", as in `PotentialShaping`."""
    reward: Annotated[float, errors.check_cost] | None = None
    """A cost of every step for a map that learns online, in place of the agent's rewards."""
    goal_reward: Positive | None = None
    """The reward of an agent that gets one at the goal alone, as in `Solution.potential`."""

    def __post_init__(self) -> None:
        errors.check_fields(self)
        errors.check_choice("terminal", self.terminal, ("zero", "keep"))
        if self.goal_reward is not None and not 0 < self.discount < 1:
            problem = f"discount is {self.discount}; goal_reward needs one above 0 and below 1."
            raise ArgumentError(problem, argument="discount")

    def reward_of(self, reward: Any, phi: Any, next_phi: Any, terminated: Any) -> tuple[Any, Any]:
        """Returns the shaped rewards of some steps, and the shaping rewards in them."""
        rule = {"discount": self.discount, "terminal": self.terminal}
        shaping = shaping_reward(phi, next_phi, terminated, **rule)
        return mix(np.asarray(reward, np.float64)[()], shaping, self.weight), shaping


def spaces_of(env: gymnasium.Env | VectorEnv) -> tuple[Space, Space]:
    """Returns the spaces of one environment, also of a vector of them."""
    errors.check_type("env", env, gymnasium.Env | VectorEnv, "an environment, or a vector of them")
    if isinstance(env, gymnasium.Env):
        return env.observation_space, env.action_space
    return env.single_observation_space, env.single_action_space


def range_of(space: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the range of each number of a `Box`, and which of them are bounded."""
    low, high = (np.asarray(bound, np.float64).ravel() for bound in (space.low, space.high))
    return low, high, np.isfinite(low) & np.isfinite(high) & (high - low < HUGE)


class _Shaping(RecordConstructorArgs, Generic[Wrapped]):
    """The arguments of both wrappers, which are kept for the environment's specification."""

    def __init__(
        self,
        env: Wrapped,
        potential: Any,
        weight: float | None = None,
        discount: float = 0.99,
        *,
        terminal: str = "zero",
        view: View | None = None,
    ) -> None:
        kind = gymnasium.Env if isinstance(self, gymnasium.Wrapper) else VectorEnv
        spaces = spaces_of(errors.check_type("env", env, kind, f"a {kind.__name__} of Gymnasium"))
        options = {"weight": weight, "discount": discount, "terminal": terminal, "view": view}
        super().__init__(potential=potential, **options)
        # The base class of Gymnasium comes after `RecordConstructorArgs`.
        super(RecordConstructorArgs, self).__init__(env)  # pyright: ignore[reportCallIssue]
        self.shaping, self.view = Shaping(weight, discount, terminal), view
        wanted = "solution.potential(), or a function of a batch of observations"
        errors.check_type("potential", potential, Callable, wanted)
        self.potential = potential if isinstance(potential, Potential) else Potential(potential)
        self.potential.check_discount(self.shaping.discount)
        (space, _), shape = spaces, self.potential.shape
        if view is None and isinstance(space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):
            problem = f"observations are a {type(space).__name__}; select a part of them."
            remedy = "For example view=lambda observation: observation['image']."
            raise ArgumentError(problem, remedy=remedy, argument="view")
        if view is None and shape not in (None, space.shape):
            problem = f"{self.potential.name} takes {shape}; observations have {space.shape}."
            remedy = "Give a view: a function from an observation to what the potential takes."
            raise ArgumentError(problem, remedy=remedy, argument="potential")

    def _seen(self, observations: Any) -> Any:
        return observations if self.view is None else self.view(observations)

    def _learn(
        self, action: Any, reward: Any, observation: Any, over: tuple[Any, Any], info: Any, /
    ) -> None:
        """Lets a potential that learns observe a step before its reward is shaped."""


class PotentialShaping(_Shaping[gymnasium.Env], gymnasium.Wrapper):
    """Shapes the rewards of an environment.

    `info["reward_original"]` and `info["shaping"]` hold the two parts of the reward. A truncated
    episode is not over for the task, so the potential of its last observation counts in full.

    Args:
        potential: `solution.potential()`, a `Potential`, or a function of a batch of observations.
        weight: The share of the shaping reward in the mix, or None to add it to the reward.
        discount: The discount of the agent (`gamma` in Stable-Baselines3).
        terminal: The treatment of terminal states. With "zero" their potential counts as 0. If no
            weight is given, the optimal policies then stay optimal for every potential (Ng et al.
            1999, Grzes 2017). With "keep" it counts as it is, as in the paper: episodes of
            different length or with different terminal states are then paid differently. For a
            solution with one goal both are the same, since its potential is 0 there.
        view: A function from an observation to what the potential takes, if the two differ.
    """

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._phi = self.potential.at(self._seen(observation))
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._learn(action, float(reward), observation, (terminated, truncated), info)
        phi, self._phi = self._phi, self.potential.at(self._seen(observation))
        mixed, shaping = self.shaping.reward_of(reward, phi, self._phi, terminated)
        info = {**info, "reward_original": reward, "shaping": float(shaping)}
        return observation, float(mixed), terminated, truncated, info


class VectorPotentialShaping(_Shaping[VectorEnv], VectorWrapper):
    """Shapes the rewards of a vector of environments.

    The arguments are those of `PotentialShaping`, where a `view` is a function of a batch. All
    autoreset modes are supported. With a reset on the next step, the reward of that step is 0. With
    a reset on the same step, the potential is taken of `infos["final_obs"]`, to which the step led,
    and not of the returned observation.
    """

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(**kwargs)
        self._phi = self.potential(self._seen(observations))
        self._over = np.zeros(self.num_envs, dtype=bool)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self._learn(actions, rewards, observations, (terminated, truncated), infos)
        phi = self.potential(self._seen(observations))
        next_phi, (over, last) = phi.copy(), last_observations(self, infos)
        if over.size:
            next_phi[over] = self.potential(self._seen(last))
        before, after = np.where(is_reset(self, self._over), 0.0, (self._phi, next_phi))
        mixed, shaping = self.shaping.reward_of(rewards, before, after, terminated)
        self._phi, self._over = phi, np.asarray(terminated | truncated)
        parts = {"reward_original": np.array(rewards), "shaping": shaping}
        masks = {f"_{name}": np.ones(self.num_envs, dtype=bool) for name in parts}
        return observations, mixed, terminated, truncated, {**infos, **parts, **masks}


def last_observations(env: VectorWrapper, infos: dict[str, Any]) -> tuple[np.ndarray, Any]:
    """Returns which environments were reset on the step itself, and their last observations."""
    over, space = np.flatnonzero(infos.get("_final_obs", ())), env.single_observation_space
    if not over.size:
        return over, None
    last = [infos["final_obs"][k] for k in over]
    return over, concatenate(space, last, create_empty_array(space, over.size))


def is_reset(env: VectorWrapper, over: np.ndarray) -> np.ndarray:
    """Returns in which environments a step only reset an episode that was `over` before it."""
    mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    return over if mode == AutoresetMode.NEXT_STEP else np.zeros_like(over)


class StepBatch(NamedTuple):
    """Steps of one or several environments, one in each row, as arrays of NumPy or JAX."""

    observation: Shaped[Any, "n ..."]
    """The observations that were left."""
    action: Int[Any, " n"]
    reward: Float[Any, " n"]
    """The rewards, without the reward of a terminal state itself."""
    next_observation: Shaped[Any, "n ..."]
    """The observations that were reached: after the last step of an episode, its last one."""
    terminated: Bool[Any, " n"]
    """The steps that reached a terminal state. A time limit does not count."""
    terminal_reward: Float[Any, " n"]
    """The reward of the terminal state itself, NaN where it is judged; elsewhere 0."""


class AbstractShaping(abc.ABC):
    """Observes the steps of an agent, learns from them, and changes the agent's rewards."""

    needs_exact_observations: bool = False
    """Whether observations are recognised bit for bit."""
    unknown_end: float = 0.0
    """The terminal reward of ends that nothing is reported of, or NaN to judge them."""
    steps: int = 0
    """The number of steps that were observed."""
    shape: tuple[int, ...] = ()
    dtype: np.dtype = np.dtype(object)
    """The type of observations; objects stand for any, until `for_spaces` is called."""
    n_actions: int = 0
    """The number of actions, or 0 for any."""

    def for_spaces(
        self, observation_space: Space, action_space: Space | None = None, *kinds: type[Space]
    ) -> None:
        """Accepts only these spaces from now on: a `Box`, or one of some `kinds`, and actions."""
        if not isinstance(observation_space, (gymnasium.spaces.Box, *kinds)):
            problem = f"the observations are {observation_space}; give a Box."
            remedy = "Join parts with FlattenObservation; use OnlineTable for numbers of states."
            raise ArgumentError(problem, remedy=remedy, argument="observation_space")
        self.shape = tuple(observation_space.shape or ())
        self.dtype = np.dtype(observation_space.dtype)
        self.n_actions = 0 if action_space is None else number_of_actions(action_space)

    def check_spaces(self, observation_space: Space, action_space: Space) -> None:
        """Raises an error unless this was made for the spaces of an environment."""
        if self.dtype.hasobject:
            return
        shape, actions = tuple(observation_space.shape or ()), getattr(action_space, "n", None)
        given, expected = (np.dtype(kind).kind for kind in (observation_space.dtype, self.dtype))
        fits = shape == self.shape and not (given == "f" and expected in "iub")
        if not fits or self.n_actions not in (0, actions):
            made_for = f"{self.dtype} of shape {self.shape} and {self.n_actions} actions"
            problem = f"the agent has {observation_space} and {action_space}, not {made_for}."
            remedy = "Make it with the spaces that the agent sees: for images in Stable-Baselines3 "
            remedy += "those of the environment in a VecTransposeImage."
            argument = "action_space" if fits else "observation_space"
            raise ArgumentError(problem, remedy=remedy, argument=argument)

    @property
    @abc.abstractmethod
    def metrics(self) -> Mapping[str, float]:
        """Numbers for a logger."""

    def observe(
        self,
        observation: npt.ArrayLike,
        action: npt.ArrayLike,
        reward: npt.ArrayLike,
        next_observation: npt.ArrayLike,
        terminated: npt.ArrayLike,
        terminal_reward: npt.ArrayLike | None = None,
        time: npt.ArrayLike | None = None,
    ) -> None:
        """Takes some steps of the agent, one in each row, with the fields of `StepBatch`.

        After the last step of an episode, `next_observation` is its last observation, and not the
        first one of the next. A time limit does not count as `terminated`. The `reward` is without
        that of a terminal state itself, which is `terminal_reward`, by default `unknown_end`.
        The `time` is the number of steps of the episode before each. Where ends pay less the later
        they come, only the time tells that they are not worse.
        """
        given = () if terminal_reward is None else (terminal_reward,)
        steps = self._columns(observation, next_observation, action, reward, terminated, *given)
        if not np.isfinite(steps.terminal_reward).all():
            raise DataError("a terminal_reward is not finite.", argument="terminal_reward")
        if terminal_reward is None:
            ends = np.where(steps.terminated, self.unknown_end, 0.0)
            steps = steps._replace(terminal_reward=ends)
        if time is not None:
            time = as_floats("time", time).reshape(-1)
            if time.size != len(steps.reward):
                problem = f"time has {time.size} numbers for {len(steps.reward)} steps."
                raise ArgumentError(problem, argument="time")
        self.take(steps, time)

    def learn_from(
        self,
        before: npt.ArrayLike,
        actions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        after: npt.ArrayLike,
        terminated: npt.ArrayLike,
        infos: Sequence[Mapping[str, Any]],
        terminal_reward: NumberOfStep = None,
        time: npt.ArrayLike | None = None,
    ) -> None:
        """Observes steps as an environment reported them, and makes the updates that are due."""
        before, actions, after = (np.asarray(part) for part in (before, actions, after))
        costs = np.array(rewards, dtype=np.float64)
        values, known = np.zeros_like(costs), terminal_reward is not None
        for k in np.flatnonzero(terminated).tolist():
            reported = (before[k], actions[k], float(costs[k]), after[k], True, False, infos[k])
            costs[k], values[k] = Step._make(reported).numbers(None, terminal_reward)
            known |= "terminal_reward" in infos[k]
        self.observe(before, actions, costs, after, terminated, values if known else None, time)
        self.train()

    def shaped(
        self,
        reward: npt.ArrayLike,
        observation: npt.ArrayLike,
        next_observation: npt.ArrayLike,
        terminated: npt.ArrayLike,
        action: npt.ArrayLike | None = None,
    ) -> Float[np.ndarray, " n"]:
        """Returns the shaped rewards of some steps. A bonus may need the actions."""
        parts = (observation, next_observation, action, reward, terminated)
        return self.shape_rewards(self._columns(*parts))

    def _columns(self, before: Any, after: Any, action: Any, *numbers: Any) -> StepBatch:
        """Returns steps as columns of shape (n,), with the action -1 where it is not given."""
        before, after = self.checked(before), self.checked(after)
        given = [np.full(len(before), -1) if action is None else action, *numbers]
        names = ("action", "reward", "terminated", "terminal_reward")
        for name, part in zip(names, given, strict=False):
            as_floats(name, part)
        action, reward, is_last, *rest = (np.asarray(part).reshape(-1) for part in given)
        value = rest[0] if rest else np.zeros(len(before))
        sizes = [len(before), len(after), *(part.size for part in (action, reward, is_last, value))]
        if len(set(sizes)) > 1:
            lengths = dict(zip(("observation", "next_observation", *names), sizes, strict=False))
            problem = f"the parts of these steps have different lengths: {lengths}."
            rarest = min(lengths, key=lambda name: sizes.count(lengths[name]))
            raise ArgumentError(problem, argument=rarest)
        is_last, value = is_last.astype(bool), value.astype(np.float64)
        reward, value = reward.astype(np.float64), np.where(is_last, value, 0.0)
        return StepBatch(before, action, reward, after, is_last, value)

    def checked(self, observations: npt.ArrayLike) -> Shaped[np.ndarray, "n ..."]:
        """Returns a batch of observations as an array of the right type, checked."""
        if self.dtype.hasobject:
            return np.asarray(observations)
        given = arrays.real("observations", observations)
        fits = given.ndim and given.shape[1:] == self.shape
        if not fits or (given.dtype.kind == "f" and self.dtype.kind in "iub"):
            wanted = f"give batches of {self.dtype} of shape (n, *{self.shape})."
            problem = f"the observations are {given.dtype} of shape {given.shape}; {wanted}"
            remedy = "Make it with the spaces that the agent sees, not those behind a wrapper."
            raise ArgumentError(problem, remedy=remedy, argument="observations")
        batch = given.astype(self.dtype, copy=False)
        if batch.dtype.kind == "f" and not np.isfinite(batch).all():
            raise DataError("an observation is not finite.", argument="observations")
        return batch

    def take(self, steps: StepBatch, time: Float[np.ndarray, " n"] | None = None) -> None:
        """Takes steps; a subclass that learns from them adds to this."""
        self.steps += len(steps.reward)

    @abc.abstractmethod
    def train(self) -> None:
        """Makes the updates that are due after the steps that were observed."""

    @abc.abstractmethod
    def shape_rewards(self, steps: StepBatch) -> Float[np.ndarray, " n"]:
        """Returns the rewards of some steps, shaped with what was learned so far."""

    def attach(self, agent: Any) -> None:
        """Raises an error unless this was made for the spaces of an agent."""
        self.check_spaces(agent.observation_space, agent.action_space)

    def warnings(self) -> list[str]:
        """Returns warnings that a user should see when training is over."""
        return []


def number_of_actions(space: Space, argument: str = "action_space") -> int:
    """Returns the number of actions of a space, which must be Discrete and start at 0."""
    if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
        remedy = "Number a few choices with drogo.worlds.numbered_actions(env)."
        problem = f"the actions are {space}; they must be Discrete and start at 0."
        raise ArgumentError(problem, remedy=remedy, argument=argument)
    return int(space.n)
