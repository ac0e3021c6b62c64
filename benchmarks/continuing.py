"""Tasks that never end: the gain and the map, learned, against the exact ones; and policies.

    uv run benchmarks/continuing.py                    everything, ten seeds
    uv run benchmarks/continuing.py --only tables      grid worlds and RiverSwim, with their truth
    uv run benchmarks/continuing.py --only control     CartPole and Acrobot, from random actions

All settings are the library's own. Only lambda follows the size of the rewards. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium
import numpy as np
import scipy.sparse as sp

from drogo import MDP, GridWorld, NeverEnding, Transitions, collect, exact, fit_continuing
from drogo.learn import ContinuingMap, Policy
from drogo.worlds import river_swim

WORLDS = ("grid-task", "four-rooms", "grid-room")
TRANSITIONS, EPISODES = 20_000, 20
LAM, LAM_OF_RIVER, LAM_OF_CONTROL = 20.0, 4000.0, 0.2
AT_END = {"CartPole-v1": -1.0, "Acrobot-v1": 0.0}
"""A fall costs 1, and so does every step of an Acrobot that does not swing up."""


def looping(world: GridWorld, *, goal: bool) -> MDP:
    """A world whose goal pays 20 and leads back to the start, or is a wall."""
    kept = np.ones(world.mdp.n_states, dtype=bool) if goal else ~world.terminal
    start = int(world.start.argmax())
    matrices = []
    for action in range(world.mdp.n_actions):
        P = sp.lil_array(world.mdp.transitions[action])
        for end in np.flatnonzero(world.terminal):
            P[end, start] = 1.0
        P = sp.csr_array(P)[kept][:, kept]
        lost = 1 - np.asarray(P.sum(axis=1)).ravel()  # into a goal that is not there: it stays
        matrices.append(sp.csr_array(P + sp.diags_array(lost)))
    reward = np.where(world.terminal, 20.0, world.mdp.reward)
    return MDP.from_arrays(matrices, reward[kept])


def drawn(chances: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Uniform states and actions, and what followed."""
    states, actions, _ = chances.shape
    state = rng.integers(0, states, TRANSITIONS)
    action = rng.integers(0, actions, TRANSITIONS)
    summed = chances.cumsum(axis=2)[state, action]
    after = (summed < rng.random(TRANSITIONS)[:, None] * summed[:, -1:]).sum(axis=1)
    return state, action, after


def tables(options: argparse.Namespace) -> None:
    print(f"\n### Where states repeat, {options.seeds} seeds, {TRANSITIONS:,} transitions\n")
    print("| task | gain: exact | of the data | learned with the map | error of v: data | learned "
          "| depth of v | converged |\n" + "|---" * 8 + "|", flush=True)  # fmt: skip
    rng = np.random.default_rng(0)
    for name in WORLDS:
        world = GridWorld.load(name)
        for goal in (True, False):
            mdp = looping(world, goal=goal)
            chances = np.stack([part.toarray() for part in mdp.transitions], axis=1)
            state, action, after = drawn(chances, rng)
            table = world.observations("coordinates")
            table = table if goal else table[~world.terminal]
            start = int(np.flatnonzero((table == world.observations("coordinates")[
                int(world.start.argmax())]).all(axis=1))[0])  # fmt: skip
            data = Transitions.from_table(table, state, after, mdp.reward[state],
                                          np.zeros(TRANSITIONS), action=action)  # fmt: skip
            known = exact.perron(mdp, LAM, reference=start)
            what = "leads back" if goal else "removed"
            report(f"{name}, goal {what}", data, LAM, table[start], known, options)
    river = river_swim()
    state, action, after = drawn(river.probability, rng)
    reward = river.reward[state, action, after]
    data = Transitions.from_table(np.arange(6), state, after, reward, np.zeros(TRANSITIONS),
                                  action=action)  # fmt: skip
    s, a, n = np.nonzero(river.probability)
    share, gain = river.probability[s, a, n] / 2, river.reward[s, a, n] / LAM_OF_RIVER
    known = exact.perron_of_steps(exact.Steps(6, s, n, share, gain), LAM_OF_RIVER, reference=1)
    report("RiverSwim", data, LAM_OF_RIVER, 1, known, options)


def report(
    name: str,
    data: Transitions,
    lam: float,
    reference: Any,
    known: exact.Perron,
    options: argparse.Namespace,
) -> None:
    def learn(preset: str) -> ContinuingMap:
        return fit_continuing(data, lam=lam, reference=reference, preset=preset,
                              seeds=options.seeds)  # fmt: skip

    direct, jointly = learn("direct"), learn("fast")
    errors = [np.abs(r.v - known.log_e).max(axis=1) for r in (direct, jointly)]
    low, high = jointly.gain.min(), jointly.gain.max()
    good = [sum(one == "converged" for one in r.status) for r in (direct, jointly)]
    print(f"| {name} | {known.gain:.5g} | {direct.gain[0]:.5g} | {low:.5g} to {high:.5g} | "
          f"{errors[0].max():.3f} | {errors[1].max():.3f} | {np.ptp(known.log_e):.1f} | "
          f"{good[0]} and {good[1]} of {options.seeds} |", flush=True)  # fmt: skip


def control(options: argparse.Namespace) -> None:
    print(f"\n### CartPole and Acrobot, {options.seeds} seeds, {TRANSITIONS:,} random steps\n")
    print("| task | diverged | status | gain | steps of an episode: random | learned, mean over "
          "seeds | worst seed | minutes |\n" + "|---" * 8 + "|", flush=True)  # fmt: skip
    for name, at_end in AT_END.items():
        env = NeverEnding(gymnasium.make(name).unwrapped, at_end=at_end)
        data = collect(env, TRANSITIONS, seed=0, reward=None)
        if name == "CartPole-v1":  # only falls matter
            data = with_rewards(data, np.where(data.reward == at_end, at_end, 0.0))
        began = time.perf_counter()
        result = fit_continuing(data, lam=LAM_OF_CONTROL, seeds=options.seeds)
        minutes = (time.perf_counter() - began) / 60
        steps = np.array([lengths(name, result.policy(seed)) for seed in range(options.seeds)])
        by_seed = steps.mean(axis=1)
        worst = by_seed.min() if name == "CartPole-v1" else by_seed.max()
        lost = sum(one == "diverged" for one in result.status)
        print(f"| {name} | {lost} of {options.seeds} | {', '.join(sorted(set(result.status)))} | "
              f"{result.gain.min():.4f} to {result.gain.max():.4f} | "
              f"{np.mean(lengths(name, None)):.0f} | {by_seed.mean():.0f} | {worst:.0f} | "
              f"{minutes:.1f} |", flush=True)  # fmt: skip


def with_rewards(data: Transitions, reward: np.ndarray) -> Transitions:
    return Transitions.from_table(data.observations, data.state, data.next_state, reward,
                                  data.terminated, action=data.action)  # fmt: skip


def lengths(name: str, policy: Policy | None) -> np.ndarray:
    """How many steps episodes have, by the best action or by random ones."""
    envs = gymnasium.make_vec(name, EPISODES, vectorization_mode="sync")
    observations, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    steps, going = np.zeros(EPISODES, dtype=int), np.ones(EPISODES, dtype=bool)
    while going.any():
        actions = envs.action_space.sample() if policy is None else policy(observations)
        observations, _, terminated, truncated, _ = envs.step(actions)
        steps += going
        going &= ~(terminated | truncated)
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("tables", "control"))
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    if options.only != "control":
        tables(options)
    if options.only != "tables":
        control(options)


if __name__ == "__main__":
    main()
