"""The numbers of an objective that follow from the data: scales, caps and ceilings."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from drogo.config import Config
from drogo.data import Transitions
from drogo.device import to_device
from drogo.errors import ArgumentError
from drogo.learn.objectives import AbstractObjective, Numbers

LARGEST_EXPONENT = 80.0
"""The largest -r / lam. The exponential of 88 is the largest that single precision holds, and is
multiplied by the likes of 100 in an optimiser."""

TINY = 1e-6
STEPS_OF_A_SCALE = 20.0
"""With costs of 1 and the paper's lam of 20, outputs are not scaled."""


def make_numbers(
    data: Transitions,
    configs: list[Config],
    objective: AbstractObjective,
    solution: Float[np.ndarray, "lanes distinct"] | None,
) -> Numbers:
    """Returns the numbers of the objective for each of some configurations.

    Args:
        data: The transitions, which decide an automatic cap and the ceiling.
        configs: The configurations.
        objective: The objective.
        solution: The exact solution of the data, if there is one.
    """
    best, lowest = float(data.terminal_rewards.max()), float(data.reward.min())
    costly = bool((data.reward < 0).all())
    scaled = [config.scaled and objective.separable for config in configs]
    smallest = min(config.lam for config in configs)
    if not all(scaled) and -lowest / smallest > LARGEST_EXPONENT:
        raise ArgumentError(
            f"exp(-r / lam) overflows single precision: the lowest reward is {lowest:g}, and lam "
            f"is {smallest:g}. Use scaled=True with the objective drogo or q, or lam of at least "
            f"{-lowest / LARGEST_EXPONENT:.3g}."
        )
    capped = zip(configs, scaled, strict=True)
    columns = {
        "lam": [c.lam for c in configs],
        "cap": [cap_from_data(data, c.lam, s) if c.cap == "auto" else c.cap for c, s in capped],
        "ceiling": [best / c.lam if c.ceiling and costly else np.inf for c in configs],
        "penalty": [c.penalty for c in configs],
        "target_norm": [c.target_norm for c in configs],
        "scaling": np.array(scaled, dtype=np.float32),
        "scale": np.ones(len(configs)),
    }
    if solution is not None and configs[0].direct:
        # An output for each action holds the log of its probability as well.
        least = np.log(data.n_actions or 1) if objective.per_action else 0.0
        columns["scale"] = [max(np.std(row[np.isfinite(row)]), least, TINY) for row in solution]
    elif objective.anchored and configs[0].rescale:
        depths = [STEPS_OF_A_SCALE * -data.reward.mean() / c.lam for c in configs]
        columns["scale"] = np.maximum(depths, 1.0)
    return Numbers(**{name: to_device(column) for name, column in columns.items()})


def cap_from_data(data: Transitions, lam: float, scaled: bool) -> float:
    """Returns a cap just above the largest exponent at the solution: v(s') - v(s) is at most
    -r/lam - log P(s'|s), and scaled by exp(r/lam), at most -log P(s'|s).

    Where states are seen once, P cannot be estimated from counts. Then moves are assumed to be no
    rarer than one in seven, whose log is about 2.

    Args:
        data: The transitions.
        lam: The temperature.
        scaled: Whether equations are divided by exp(-r/lam).
    """
    edges = data.edges
    log_cost = np.zeros(edges.reward.size) if scaled else -edges.reward / lam
    rarity = np.log(np.bincount(edges.state, edges.weight)[edges.state] / edges.weight)
    return float(max((log_cost + rarity).max(), log_cost.max() + 2.0)) + 0.5
