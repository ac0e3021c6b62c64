"""A DQN whose map learns while it trains, all in one jitted program, in the style of PureJaxRL.

    python examples/jitted_agent.py                      # three seeds at once
    python examples/jitted_agent.py --no-map             # the same agent without a map
    python examples/jitted_agent.py --world grid-task --seeds 10

Environments, agent and map (`OnlineLearner`) are pure functions of one state. So a run is a scan
over steps, and `vmap` runs several seeds at once.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from jax import Array

from drogo import Column, Drogo, GridWorld, exact
from drogo.learn.networks import DenseNetwork
from drogo.online import OnlineLearner, OnlineState, StepBatch


@dataclass(frozen=True)
class Config:
    """A DQN whose rewards are shaped with a map that learns from its own steps."""

    world: str = "four-rooms"
    """The name of a grid world, or the path of a map."""
    steps: int = 9600
    """Steps of all environments of a seed together."""
    environments: int = 4
    """The number of environments that take a step at once."""
    updates: int = 4
    """Updates of the agent, and as many of the map, after each step of all environments."""
    evaluations: int = 6
    """The number of greedy episodes that are evaluated."""
    seeds: int = 3
    map: bool = True
    """Whether rewards are shaped with a map."""
    weight: float = 0.5
    """The share of the shaping reward in the reward of the agent."""
    lam: float = 20.0
    """The temperature of the map."""
    discount: float = 0.99
    batch_size: int = 64
    learning_rate: float = 1e-3
    target_rate: float = 0.01
    """The rate at which the target network follows."""


class Run(NamedTuple):
    """Everything that changes in a run."""

    key: Array
    cell: Array
    """The state of each environment."""
    clock: Array
    """The steps of each environment since its reset."""
    network: Any
    target: Any
    optimiser: Any
    online: OnlineState
    """The map, with a replay of all steps, from which the agent samples too."""


def make_train(config: Config) -> Callable[[Array], tuple[Array, Array]]:
    """Returns a function from a key to the returns of greedy episodes, and the map in the end."""
    world = GridWorld.load(config.world)
    goes_to = jnp.asarray(world.mdp.outcomes.next_state[:, :, 0])  # every move has one outcome
    reward, start = (jnp.asarray(a, jnp.float32) for a in (world.mdp.reward, world.mdp.start))
    terminal, table = jnp.asarray(world.terminal), jnp.asarray(world.observations("coordinates"))
    actions, n = world.mdp.n_actions, config.environments
    optimiser = optax.adam(config.learning_rate)

    def make_network(key: Array) -> Any:
        # Without Fourier features, cells on either side of a wall are hard to distinguish.
        return DenseNetwork(2, frequencies=8, key=key, width=128, depth=2, outputs=actions)

    problem, method = Column(lam=config.lam), Drogo(batch_size=config.batch_size)
    learner = OnlineLearner(problem, method, make_network(jax.random.key(0)), actions)

    def first_cells(key: Array) -> Array:
        return jax.random.choice(key, len(start), (n,), p=start)

    def begin(key: Array) -> Run:
        key, cell_key, agent_key, map_key, batch_key = jax.random.split(key, 5)
        network = make_network(agent_key)
        online = learner.init(make_network(map_key), batch_key, table[0], capacity=config.steps,
                              low=-0.5, high=0.5)  # fmt: skip
        cell, clock = first_cells(cell_key), jnp.zeros(n, jnp.int32)
        return Run(key, cell, clock, network, network, optimiser.init(network), online)

    def walk(run: Run, epsilon: Array) -> Run:
        """Takes a step in all environments, which the map observes."""
        key, cell_key, random_key, action_key = jax.random.split(run.key, 4)
        best = run.network(table[run.cell]).argmax(axis=1)
        is_random = jax.random.uniform(random_key, (n,)) < epsilon
        action = jnp.where(is_random, jax.random.randint(action_key, (n,), 0, actions), best)
        # The next observation is the episode's own last one, and a time limit does not end the
        # task: neither the agent nor the map sees a reset.
        cell, clock = goes_to[run.cell, action], run.clock + 1
        terminated, value = terminal[cell], jnp.where(terminal[cell], reward[cell], 0.0)
        observations = (table[run.cell], table[cell])
        steps = StepBatch(
            observations[0], action, reward[run.cell], observations[1], terminated, value
        )
        online = learner.observe(run.online, steps)
        over = terminated | (clock >= world.step_limit)
        cell, clock = jnp.where(over, first_cells(cell_key), cell), jnp.where(over, 0, clock)
        return run._replace(key=key, cell=cell, clock=clock, online=online)

    def learn(run: Run) -> Run:
        """Makes an update of the map, and one of the agent."""
        key, batch_key = jax.random.split(run.key)
        online = learner.update(run.online)[0] if config.map else run.online
        batch = online.replay.sample(batch_key, config.batch_size)
        rewards, goes_on = batch.reward + batch.terminal_reward, ~batch.terminated
        if config.map:  # The replay holds original rewards: they are shaped with the newest map.
            phi = learner.potential(online, batch.observation)
            phi_next = goes_on * learner.potential(online, batch.next_observation)
            shaping = config.discount * phi_next - phi
            rewards = (1 - config.weight) * rewards + config.weight * shaping
        best = run.target(batch.next_observation).max(axis=1)
        target_values = rewards + config.discount * goes_on * best

        def loss(network: Any) -> Array:
            q = jnp.take_along_axis(network(batch.observation), batch.action[:, None], axis=1)
            return optax.huber_loss(q[:, 0], target_values).mean()

        change, state = optimiser.update(jax.grad(loss)(run.network), run.optimiser)
        network = optax.apply_updates(run.network, change)
        target = optax.incremental_update(network, run.target, config.target_rate)
        return Run(key, run.cell, run.clock, network, target, state, online)

    def greedy_return(network: Any) -> Array:
        def step(_: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            cell, total = carry
            after = goes_to[cell, network(table[cell][None])[0].argmax()]
            gain = reward[cell] + jnp.where(terminal[after], reward[after], 0.0)
            return after, total + jnp.where(terminal[cell], 0.0, gain)

        return jax.lax.fori_loop(0, world.step_limit, step, (start.argmax(), jnp.zeros(())))[1]

    def iteration(run: Run, epsilon: Array) -> tuple[Run, None]:
        run = walk(run, epsilon)
        return jax.lax.fori_loop(0, config.updates, lambda _, run: learn(run), run), None

    def train(key: Array) -> tuple[Array, Array]:
        def part(run: Run, epsilon: Array) -> tuple[Run, Array]:
            run, _ = jax.lax.scan(iteration, run, epsilon)
            return run, greedy_return(run.target)  # an average, and so the steadier policy

        shape = (config.evaluations, config.steps // (n * config.evaluations))
        epsilon = jnp.linspace(1.0, -0.9, shape[0] * shape[1]).clip(0.05).reshape(shape)
        run, returns = jax.lax.scan(part, begin(key), epsilon)
        return returns, learner.value(run.online, table)

    return train


def main(config: Config) -> None:
    train = jax.jit(jax.vmap(make_train(config)))
    clock = time.perf_counter()
    returns, maps = jax.block_until_ready(train(jax.random.split(jax.random.key(0), config.seeds)))
    took = time.perf_counter() - clock
    print(f"{config.seeds} seeds of {config.steps:,} steps, with compiling: {took:.0f} s")
    world = GridWorld.load(config.world)
    live, truth = ~world.terminal, exact.log_column(world.mdp, config.lam)
    for seed, (row, v) in enumerate(zip(returns, maps, strict=True)):
        print(f"seed {seed}: greedy episodes returned", ", ".join(f"{r:.0f}" for r in row))
        if config.map:  # Where the agent has not been recently, the map is outdated.
            correlation = np.corrcoef(v[live], truth[live])[0, 1]
            print(f"   correlation of the map with the exact one: {correlation:.3f}")


if __name__ == "__main__":
    main(tyro.cli(Config))
