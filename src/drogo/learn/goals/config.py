"""`GoalConfig`: the settings of a map to every goal, and how they follow from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from drogo.config import BEYOND_SINGLE, MOST_COORDINATES, MOST_UNITS
from drogo.data import Transitions
from drogo.errors import (
    ArgumentError,
    ArgumentTypeError,
    check_choice,
    check_number,
    check_share,
    check_whole,
)

NETWORKS = ("quasimetric", "mlp", "table")
OBJECTIVES = ("drogo", "q")


@dataclass(frozen=True)
class GoalConfig:
    """The settings of `fit_goals`."""

    lam: float = 20.0
    """Temperature lambda."""
    network: str = "quasimetric"
    """The network: quasimetric, whose values satisfy the triangle inequality whatever was learned;
    mlp, which is not bound to it; or table, the exact solution itself, where states repeat."""
    objective: str = "drogo"
    """Whether the network has one output (drogo), or one for each action (q). With one for each,
    which only an mlp has, there is a policy also at observations that are not in the data, and
    continuous states are learned from the data of any policy."""
    width: int = 256
    """Units in each hidden layer."""
    depth: int = 2
    """Number of hidden layers that see one observation alone."""
    frequencies: int = 8
    """Number of Fourier features of each coordinate, for observations of at most 16 numbers."""
    components: int = 32
    """Number of components of a quasimetric."""
    length: int = 8
    """Number of intervals in each component."""
    step_size: float = 3e-3
    """Step size of Adam, which falls to 0 along a cosine."""
    clip_norm: float = 0.5
    """Largest global norm of a gradient."""
    updates: int = 6000
    """Number of updates."""
    batch_size: int = 1024
    """Number of pairs of a state and a goal in an update."""
    most_goals: int = 1000
    """The most goals that are learned from. Of more observations so many are drawn; where states
    repeat, all terminal ones are among them."""
    near: float = 0.5
    """Where states do not repeat: the share of pairs whose goal is one of the nearest of the state.
    Others are hardly ever reached in one step, and it is these that all other values rest on."""
    target_rate: float = 0.3
    """Where states do not repeat: the Polyak rate of the target network."""
    tolerance: float = 0.1
    """Largest difference of any value from the exact solution of the data in a converged fit; a
    thousandth of the map's depth if that is more."""

    def __post_init__(self) -> None:
        for name in ("lam", "step_size", "clip_norm", "tolerance"):
            value = check_number(name, getattr(self, name))
            if not 0 < value < BEYOND_SINGLE:
                raise ArgumentError(f"{name} is {value!r}; it must be positive, and below 1e38.")
            object.__setattr__(self, name, value)
        for name in ("width", "depth", "components", "length"):
            check_whole(name, getattr(self, name), 1, MOST_UNITS)
        for name in ("updates", "batch_size", "most_goals"):
            check_whole(name, getattr(self, name), 1)
        check_whole("frequencies", self.frequencies, 0, MOST_UNITS)
        for name in ("near", "target_rate"):
            check_share(name, getattr(self, name))
        if not self.target_rate:
            raise ArgumentError("target_rate is 0, so that the target would never move.")
        check_choice("network", self.network, NETWORKS)
        check_choice("objective", self.objective, OBJECTIVES)
        if self.objective == "q" and self.network != "mlp":
            raise ArgumentError(
                f"objective 'q' has an output for each action, which network={self.network!r} has "
                "not. Use network='mlp'."
            )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> GoalConfig:
        """Returns the settings that `vars` of a configuration gave.

        Args:
            values: All settings by name.
        """
        differ = sorted(set(values) ^ {field.name for field in fields(cls)})
        if differ:
            raise ArgumentError(
                f"these settings are from another version of drogo: {', '.join(differ)} differ."
            )
        return cls(**values)


OF_MLP = {"step_size": 1e-3, "updates": 4000, "batch_size": 2048}
"""What is changed for an mlp."""
ON_MANY_NUMBERS = {"quasimetric": {"depth": 1, "width": 512}, "mlp": {"depth": 1}}
"""What is changed where observations are not a few coordinates: images, or one-hot states."""
ON_CONTINUOUS = {"updates": 5000, "batch_size": 512, "step_size": 1e-3}
"""What is changed where states do not repeat."""


def configure(data: Transitions, settings: Mapping[str, Any]) -> GoalConfig:
    """Returns the configuration of a map: the defaults that suit the data, with some changes.

    Args:
        data: The transitions to learn from.
        settings: Fields of `GoalConfig` that replace the defaults.
    """
    known = [field.name for field in fields(GoalConfig)]
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ArgumentTypeError(
            f"unknown setting(s): {', '.join(unknown)}. The settings are {', '.join(known)}."
        )
    network = settings.get("network", GoalConfig.network)
    adapted: dict[str, Any] = dict(OF_MLP) if network == "mlp" else {}
    if not data.repeats:
        adapted |= ON_CONTINUOUS
    table = data.observations
    if table.ndim != 2 or table.shape[1] > MOST_COORDINATES:
        adapted |= {"frequencies": 0, **ON_MANY_NUMBERS.get(network, {})}
    return GoalConfig(**{**adapted, **settings})
