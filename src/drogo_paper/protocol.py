"""The readings of the paper's experiments: its text, the authors' code, and the library's own way.

The text and the code differ. The files named below are those of the folder `function_approximation`
in the public repository httse9/representations, which was read for facts alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

UPDATES_IN_AN_EPOCH = 100
"""200,000 transitions in batches of 2,000."""


@dataclass(frozen=True)
class Protocol:
    """How the paper's experiments are run again. Each difference is a field."""

    name: str
    settings: str
    """`paper`: the loss, networks, optimiser and batches of the text, which those of the code agree
    with. `recommended`: what the library recommends for its own `Drogo()`."""
    epochs: Mapping[str, int] | None
    """The passes over the data in each world, or None for a recommended number of updates. The text
    prints none; 400 is the default of eigenlearning_dr.py, and the axes of figure_1.py end at 200,
    300, 3,000 and 3,000."""
    episodes: bool = False
    """Whether the transitions are whole episodes of the random policy from random cells, cut at the
    step limit (generate_dataset.py), or one step from each of 200,000 uniform states (the text)."""
    double: bool = False
    """Whether parameters, gradients and the optimiser are in double precision (eigenlearner.py).
    The text does not say."""
    stops: bool = False
    """Whether a seed stops once no value is further than a tenth of the tolerance from the exact
    solution of its data. It saves time, and is in neither the text nor the code."""
    few: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The seeds of fits that would take days here, by world and input. Agents with more seeds share
    their maps."""
    every_step: bool = True
    """Whether N_OPT is the last step whose return differs from the final one, plus 1, with an
    evaluation after every step (table_1.py), or the first of the evaluations every 100 steps from
    which on all are optimal (the text)."""
    plain_descent: bool = False
    """Whether the ablation with a table is plain gradient descent through all pairs of state and
    action in order, at s alone, from normal random values, with a norm that is a sum
    (ablation_tabular.py), or has the optimiser and the batches of the networks (the text)."""
    newest_networks: bool = False
    """Whether the networks are those of the newest encoder.py, with three hidden layers of 256 and
    strided convolutions, or those of the text, with four of 128 and pooling."""
    truth: str = "transition"
    """The eigenvector of the ablations' cosines: `transition` is that of the text, and
    `representation` that of the symmetrised inverse (ablation_tabular.py)."""

    def overrides(self, world: str) -> dict[str, Any]:
        """Returns the settings of a fit that are not those of `settings`."""
        if self.epochs is None:
            return {}
        return {"updates": UPDATES_IN_AN_EPOCH * self.epochs[world], "stop_early": self.stops}

    def seeds(self, world: str, kind: str, seeds: int) -> int:
        """Returns the number of seeds of a fit."""
        return min(self.few.get((world, kind), seeds), seeds)


WORLDS = ("grid-task", "four-rooms", "grid-maze", "grid-room")
OF_TEXT: dict[str, int] = dict.fromkeys(WORLDS, 400)
OF_CODE: dict[str, int] = dict(zip(WORLDS, (200, 300, 3000, 3000), strict=True))
FEW = {("grid-maze", "pixels"): 2, ("grid-room", "pixels"): 2}
PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("library", "recommended", None, stops=True),
        Protocol("text", "paper", OF_TEXT, stops=True),
        Protocol("code", "paper", OF_CODE, episodes=True, double=True, stops=True, few=FEW,
                 plain_descent=True, truth="representation"),
    )
}  # fmt: skip
PROTOCOLS["newest"] = replace(PROTOCOLS["code"], name="newest", newest_networks=True)
