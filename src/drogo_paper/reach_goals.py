"""`ReachGoals`: the library's worlds as goal environments, for agents with hindsight."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from jaxtyping import Int
from scipy.sparse import csgraph

from drogo.errors import ArgumentError, ArgumentTypeError, check_number, check_whole
from drogo.worlds.tabular import Options, Reset, TabularEnv

PARTS = ("observation", "achieved_goal", "desired_goal")


class ReachGoals(gymnasium.Wrapper, RecordConstructorArgs):
    """Turns one of the library's worlds into a goal environment for `HerReplayBuffer` of
    Stable-Baselines3, in the interface of gymnasium-robotics.

    An observation is a dictionary: `observation` and `achieved_goal` are the observation of the
    world, and `desired_goal` is that of the goal. Goals are sampled from the states that can be
    reached, other than terminal states of a negative value, unless `reset(options={"goal": i})`
    names one. The reward is the cost of the state that is left, and 0 for the step that reaches the
    goal. An episode is terminated in the goal, with `info["is_success"]`, and in every terminal
    state of the world, which is a failure unless it is the goal.

    Args:
        env: A world of drogo, such as `drogo/FourRooms-v0`, or a `MiniGridWorld`.
        failure: The value of a terminal state of the world that is not the goal. It must be so low
            that no agent ends an episode there to save the costs of further steps.
    """

    def __init__(self, env: gymnasium.Env, failure: float = -200.0) -> None:
        world, wrappers = env, []
        while not isinstance(world, TabularEnv) and isinstance(world, gymnasium.Wrapper):
            wrappers += [world] if isinstance(world, gymnasium.ObservationWrapper) else []
            world = world.env
        if not isinstance(world, TabularEnv):
            remedy = 'give gymnasium.make("drogo/FourRooms-v0") or a MiniGridWorld.'
            raise ArgumentTypeError(f"the states of {env} are unknown; {remedy}", argument="env")
        RecordConstructorArgs.__init__(self, failure=failure)
        gymnasium.Wrapper.__init__(self, env)
        self._world = world
        table = world.all_observations()
        for wrapper in reversed(wrappers):
            table = [wrapper.observation(observation) for observation in table]
        self._table = _checked(np.asarray(table), env.observation_space)
        self.observation_space = gymnasium.spaces.Dict(dict.fromkeys(PARTS, env.observation_space))
        self.failure, self.goal = check_number("failure", failure), 0

    def reset(self, *, seed: int | None = None, options: Options = None) -> Reset:
        options = dict(options or {})
        goal = options.pop("goal", None)
        observation, info = self.env.reset(seed=seed, options=options)
        if goal is None:
            goal = self._world.np_random.choice(self._reachable(self._world.state))
        elif check_whole("reset option 'goal'", goal, 0, len(self._table) - 1) == self._world.state:
            problem = f"reset option 'goal' is {goal}, in which the episode begins; give another."
            raise ArgumentError(problem, argument="options")
        self.goal = int(goal)
        return self._parts(observation), {**info, "goal": self.goal}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        observation, reward, over, cut, info = self.env.step(action)
        cost = float(reward) - (info.get("terminal_reward") or 0.0)
        arrived = self._world.state == self.goal
        worth = self.failure if over and not arrived else 0.0
        parts = {"cost": cost, "ends_world": over, "is_success": arrived}
        info = {**info, **parts, "terminal_reward": worth}
        over, reward = over or arrived, 0.0 if arrived else cost + worth
        return self._parts(observation), reward, over, cut and not over, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Returns the rewards that one or a batch of steps would have had with other goals: 0 for
        those that reach the goal, and for others the costs of the states that were left, with
        `failure` if they end in a terminal state of the world. `info` is that of each step, which
        `HerReplayBuffer` keeps with `copy_info_dict=True`."""
        batch = not isinstance(info, dict)
        infos = list(info) if batch else [info]
        if not all("cost" in one for one in infos):
            problem = "info has no costs; give copy_info_dict=True to HerReplayBuffer."
            raise ArgumentError(problem, argument="info")
        costs, over = (np.array([one[name] for one in infos]) for name in ("cost", "ends_world"))
        arrived = np.atleast_1d(self.compute_terminated(achieved_goal, desired_goal, info))
        rewards = np.where(arrived, 0.0, costs + np.where(over, self.failure, 0.0))
        return rewards if batch else float(rewards[0])

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Returns whether goals were reached. The arguments are those of `compute_reward`."""
        achieved, desired = np.asarray(achieved_goal), np.asarray(desired_goal)
        numbers = tuple(range(achieved.ndim - self._table[0].ndim, achieved.ndim))
        return (achieved == desired).all(axis=numbers)

    def compute_truncated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> bool:
        """Returns False: time limits do not depend on goals."""
        return False

    def _parts(self, observation: Any) -> dict[str, Any]:
        parts = (observation, np.copy(observation), np.copy(self._table[self.goal]))
        return {name: part[()] for name, part in zip(PARTS, parts, strict=True)}

    def _reachable(self, start: int) -> Int[np.ndarray, " goals"]:
        """Returns the states that a state leads to, except itself and bad terminal states."""
        moves, reached = self._world.moves, np.zeros(len(self._table), dtype=bool)
        order = csgraph.breadth_first_order(moves.mdp.P, start, return_predecessors=False)
        reached[order] = True
        reached &= ~(moves.terminal & (moves.reward < 0))
        reached[start] = False
        if not reached.any():
            raise ArgumentError(f"state {start} leads to no other state that could be a goal.")
        return np.flatnonzero(reached)


def _checked(table: np.ndarray, space: gymnasium.Space) -> np.ndarray:
    """Returns a table of observations, which must fit the space and be distinct."""
    if table.shape[1:] != (space.shape or ()):
        problem = f"States have observations of shape {table.shape[1:]}, and env has {space.shape}."
        remedy = "A wrapper that changes shapes, such as a stack of frames, goes around ReachGoals."
        raise ArgumentError(problem, remedy=remedy, argument="env")
    if len(np.unique(table.reshape(len(table), -1), axis=0)) < len(table):
        problem = "Several states look the same; use observations that distinguish all of them."
        raise ArgumentError(problem, argument="env")
    return table
