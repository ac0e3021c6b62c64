"""`OnlineConfig`: the settings of a network that learns the map while an agent trains."""

from __future__ import annotations

from dataclasses import dataclass

from drogo.errors import ArgumentError, check_number, check_share, check_whole


@dataclass(frozen=True)
class OnlineConfig:
    """The settings of an `OnlineMap`."""

    lam: float = 20.0
    """Temperature of the map."""
    optimism: float | None = 0.0
    """The terminal value, in units of reward, that an action is taken to lead to until it was tried
    in a part of the observations. With None there is no map before the first terminal state."""
    until_found: bool = True
    """Whether optimism ends as soon as a terminal state was seen that is worth as much."""
    known_after: int = 1
    """How many times an action counts as untried in a cell of observations."""
    untried_share: float = 0.0
    """The share of a batch that is drawn from steps that left a place where something was not tried
    yet. Where little is left to try these are rare, and without them the map learns nothing."""
    evenly: bool = False
    """Whether all pairs of a cell and an action are drawn equally often, however often they were
    tried. What was tried once is then learned as fast as what was tried a hundred times."""
    capacity: int = 100_000
    """How many steps are kept."""
    batch_size: int = 32
    """The number of steps of an update."""
    updates: float = 0.5
    """Updates of the map for each step of the environment."""
    train_every: int = 8
    """The updates of so many steps are made together, which is faster than after each step."""
    learning_starts: int = 500
    """The map begins to learn after this many steps."""
    width: int = 64
    """Units in each hidden layer."""
    depth: int = 3
    """The number of hidden layers."""
    frequencies: int = 8
    """Fourier features of each number, if an observation has at most 16."""
    centred: bool = False
    """Whether the network sees how far the numbers of an observation are from their mean, in place
    of the middle of their range. Images of one scene differ in a few pixels: an MLP then sees these
    and little else, and learns several times as fast."""
    step_size: float = 2e-3
    """The step size of Adam."""
    target_rate: float = 0.5
    """Polyak rate of the target network; 0.05 unless given where an observation has more than 16
    numbers."""
    cap: float = 4.0
    """The largest exponent of the loss. Values are right where the next states of an action have
    probabilities of at least exp(-cap), 2 %; a larger cap makes training less stable."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("known_after", 1), ("capacity", 2), ("batch_size", 10),
                            ("train_every", 1), ("learning_starts", 1), ("width", 1), ("depth", 1),
                            ("frequencies", 0), ("seed", 0)):  # fmt: skip
            check_whole(name, getattr(self, name), least)
        for name in ("lam", "updates", "step_size", "target_rate", "cap"):
            if not check_number(name, getattr(self, name)) > 0:
                raise ArgumentError(f"{name} is {getattr(self, name)}; it must be positive.")
        if self.optimism is not None:
            check_number("optimism", self.optimism)
        check_share("untried_share", self.untried_share)
        if self.target_rate > 1:
            raise ArgumentError(f"target_rate is {self.target_rate}; it must be at most 1.")
