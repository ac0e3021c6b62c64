"""`learned_option`: an option whose policy is a map that was learned from steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from drogo.use.online.base import AbstractOnlineMap
from drogo.use.options.option import Option


def learned_option(online: AbstractOnlineMap, name: str = "option", seed: int = 0) -> Option:
    """Makes an option that goes to what was not tried yet, as a map knows the way at this moment.

    Its policy is the action of which the map promises most, and it ends where some action was not
    tried: an optimistic map promises most of these, so that is where the way ends. It may begin
    everywhere, unless everything was tried. Where it begins at its end, it takes an action that was
    not tried; to an exact map all of these are equal, and one is drawn.

    The option keeps what it needs of the map, which may learn on.

    Args:
        online: The map, such as an `OnlineMap`, with `optimism`.
        name: What it is called in messages.
        seed: Decides what is drawn.

    Returns:
        The option. A network may be wrong, and lead in circles: give `OptionWrapper` a limit.
    """
    promises, rng = online.promises(), np.random.default_rng(seed)

    def policy(observation: Any) -> int:
        batch = np.asarray(observation)[None]
        (untried,) = promises.untried(batch)
        if untried.any():
            return int(rng.choice(np.flatnonzero(untried)))
        return int(promises.logits(batch)[0].argmax())

    def ends(observation: Any) -> bool:
        return promises.is_done or bool(promises.untried(np.asarray(observation)[None]).any())

    return Option(policy, lambda observation: not promises.is_done, ends, name)
