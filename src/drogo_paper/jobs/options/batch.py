"""The best policy in what was tried so far: what Q-learning from all steps of a batch ends with.

The published script sweeps over all steps that an agent has taken until no value changes, and then
follows the greedy policy for one episode. Worlds and policies are deterministic, so that both are
solved exactly here, for many lanes at once.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.use.options.policies import best_values
from drogo.worlds.tabular import TabularWorld

SETTLED = 1e-9

Tried = Bool[np.ndarray, "lanes states actions"]
ActionValues = Float[np.ndarray, "lanes states actions"]
Policy = Int[np.ndarray, "lanes states"]


def solve_tried(
    world: TabularWorld, tried: Tried, *, untried: float, discount: float
) -> ActionValues:
    """Returns the value of each action if those that were not tried are worth `untried`.

    Args:
        world: The world, with its terminal states, which are worth 0.
        tried: Which actions each lane has tried.
        untried: What an action is worth that was not tried.
        discount: The discount.
    """
    known = np.moveaxis(tried, 2, 0)
    gain = np.where(known, world.reward, untried)
    gain = np.where(world.terminal, 0.0, gain)
    goes_on = np.ascontiguousarray(known & ~world.terminal)
    q = best_values(world.next_state, gain, goes_on, discount=discount, tolerance=SETTLED)
    return np.moveaxis(q, 0, 2)


def greedy_return(world: TabularWorld, policy: Policy, steps: int) -> Float[np.ndarray, " lanes"]:
    """Returns the undiscounted return of an episode of at most `steps` steps from the start.

    Args:
        world: The world, with its terminal states.
        policy: What each lane does.
        steps: How many steps an episode has, if no terminal state is reached.
    """
    lane, state = np.arange(len(policy)), np.full(len(policy), int(world.start.argmax()))
    earned = np.zeros(len(policy))
    for _ in range(steps):
        earned += np.where(world.terminal[state], 0.0, world.reward[state])
        after = world.next_state[state, policy[lane, state]]
        state = np.where(world.terminal[state], state, after)
    return earned
