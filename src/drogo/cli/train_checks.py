"""What `drogo train` refuses before any agent is trained, in terms of its options."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from drogo.errors import ArgumentError, check_number, check_share, check_whole, import_extra
from drogo.worlds.resolve import Environment, GridMap, World

if TYPE_CHECKING:
    from drogo.cli.train import Train

TRIED = 100
"""So many random steps are tried to see what an environment pays."""


def check_numbers(options: Train, steps: int) -> None:
    """Raises an error if a number cannot be used, whatever the world is.

    Args:
        options: The options.
        steps: The number of steps.
    """
    check_whole("--seeds", options.seeds, 1)
    check_whole("--workers", options.workers, 0)
    check_whole("--steps", steps, 1)
    check_share("--weight", options.weight)
    check_share("--discount", options.discount)
    check_number("--optimism", options.optimism)
    if not check_number("--lam", options.lam) > 0:
        raise ArgumentError(f"--lam is {options.lam}; it must be positive.")
    if options.reward is not None and not check_number("--reward", options.reward) < 0:
        raise ArgumentError(
            f"--reward is {options.reward:g}; a cost of every step is negative: --reward -1."
        )


def check_options(options: Train, world: World) -> None:
    """Raises an error if an option does not apply to the agent or the world.

    Args:
        options: The options.
        world: What `options.env` stands for.
    """
    if options.reward is not None and not isinstance(world, Environment):
        raise ArgumentError(
            f"--reward is a cost in place of a reward that is not negative, and {options.env} has "
            "costs of its own. Leave --reward out."
        )
    if not options.explore and options.agent != "dqn":
        raise ArgumentError(
            f"--no-explore is for dqn; the map never chooses actions of {options.agent}. Leave it "
            "out."
        )
    if options.agent != "q-learning":
        if importlib.util.find_spec("stable_baselines3") is None:
            import_extra("stable_baselines3", "Stable-Baselines3", extra="sb3")
        return
    if not isinstance(world, GridMap):
        raise ArgumentError(
            f"{options.env} is not a grid world, and q-learning is tabular. Use --agent dqn."
        )
    if options.map == "network":
        raise ArgumentError(
            "--map network is for agents with a network, and q-learning is tabular: its map is a "
            "table. Leave --map out, or use --agent dqn."
        )
    if options.observation is not None:
        raise ArgumentError(
            "--observation is for agents with a network, and q-learning knows states by their "
            "numbers. Leave --observation out, or use --agent dqn."
        )


def try_out(options: Train, world: World) -> None:
    """Raises an error if agents or maps cannot be made, or if the world is not a task with costs.

    Args:
        options: The options.
        world: What `options.env` stands for.
    """
    if options.agent == "q-learning":
        return
    from drogo.agents.deep import as_numbers
    from drogo.cli import training

    env = world.make(limited=True)
    training.make_map(training.settings_of(options), world, as_numbers(env))
    if isinstance(world, Environment):
        _try_rewards(options, world)


def _try_rewards(options: Train, world: Environment) -> None:
    """Takes some random steps: an agent that is paid for them has no reason to reach an end."""
    env = world.make(limited=True)
    env.action_space.seed(0)
    env.reset(seed=0)
    ordinary, own = [0.0], []
    for _ in range(TRIED):
        _, reward, over, cut, info = env.step(env.action_space.sample())
        own.append(float(reward) - float(info.get("terminal_reward") or 0.0) * over)
        ordinary += [] if over else own[-1:]
        if over or cut:
            env.reset()
    env.close()
    most = max(ordinary)
    if most > 0:
        raise ArgumentError(
            f"an ordinary step of {world.spec.id} has the reward {most:g}. `drogo train` is for "
            "tasks with an end to reach at a cost: here an agent is paid for going on, so an end "
            "is nothing to reach, and --reward would not make it so."
        )
    if world.sampling["reward"] is None and options.reward is None and max(own) >= 0:
        raise ArgumentError(
            f"a step of {world.spec.id} has the reward {max(own):g}, and the map needs a cost for "
            "every step. Give --reward -1: the map then counts every step alike, and the agent's "
            "own rewards stay as they are."
        )
