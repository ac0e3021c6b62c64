"""`OnlineState`: everything that changes while a map is learned from steps as they come."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from drogo.learn.learner import State
from drogo.use.online.steps import Replay
from drogo.use.online.visits import Visits


class OnlineState(eqx.Module):
    """Everything that changes while a map is learned."""

    training: State
    average: PyTree[Array]
    """A running mean of the parameters, which gives the potential: that of a single update jumps
    about, and an agent would have to follow all its jumps."""
    replay: Replay
    ends: Replay
    """The last steps into terminal states."""
    visits: Visits
    slots: UInt32[Array, " capacity"]
    """The row of `visits` that each step in the replay has left."""
    low: Float[Array, " size"]
    high: Float[Array, " size"]
    """The range of the numbers of an observation, as far as it was seen."""
    mean: Float[Array, " size"]
    """Their mean over all steps."""
    best: Float[Array, ""]
    """The best value of a terminal state, in units of reward; minus infinity before the first."""
    mean_step: Float[Array, ""]
    """A running mean of the differences of the map between the two ends of a step."""
    key: Array

    @property
    def steps(self) -> Int[Array, ""]:
        """How many steps were observed."""
        return self.replay.added

    @property
    def ended(self) -> Bool[Array, ""]:
        """Whether a terminal state was seen."""
        return self.ends.added > 0
