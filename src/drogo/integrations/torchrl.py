"""Shaped rewards in torchrl: a transform for environments, and for replay buffers.

    env = TransformedEnv(GymEnv("CartPole-v1"), PotentialTransform(solution.potential()))
    buffer.append_transform(PotentialTransform(solution.potential()))

This module needs the extra `torchrl`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torchrl.data.tensor_specs import Unbounded
from torchrl.envs.transforms import Transform

from drogo import public
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.potential import Potential, mix, shaping_reward
from drogo.use.shaping import Shaping

__all__ = ["PotentialTransform"]


class PotentialTransform(Transform):
    """Writes the shaped reward of each step beside the reward, as `RNDTransform` does its bonus.

    A loss learns from it after `loss.set_keys(reward="shaped_reward")`, and logs show the original
    reward. With `out_keys=["reward"]` it takes its place. The `discount` is the agent's; `weight`
    and `terminal` are as in `PotentialShaping`.
    """

    def __init__(
        self, potential: Any, in_keys: Sequence[Any] = ("observation", "reward", "terminated"),
        out_keys: Sequence[Any] = ("shaped_reward",), *,
        discount: float = 0.99, weight: float | None = None, terminal: str = "zero",
    ) -> None:  # fmt: skip
        for name, keys, n in (("in_keys", in_keys, 3), ("out_keys", out_keys, 1)):
            listed = keys if isinstance(keys, tuple | list) else []
            if [isinstance(key, str | tuple) for key in listed] != [True] * n:
                raise ArgumentError(f"{name} is {keys!r}; give {n} in a list.", argument=name)
        super().__init__(in_keys=list(in_keys), out_keys=list(out_keys))
        self.shaping = Shaping(weight, discount, terminal)
        if not isinstance(potential, Potential):
            problem = f"potential is a {type(potential).__name__}; give solution.potential()."
            raise ArgumentTypeError(problem, argument="potential")
        potential.check_discount(discount)
        self.potential = potential.to_torch()

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        observation, *others = self.in_keys
        reward, terminated = (next_tensordict.get(key) for key in others)
        steps = (tensordict.get(observation), next_tensordict.get(observation))
        with torch.no_grad():
            phi, next_phi = (self.potential(part)[..., None] for part in steps)
        if self.shaping.terminal == "zero":
            next_phi = torch.where(terminated, 0.0, next_phi)
        rule = {"discount": self.shaping.discount, "terminal": "keep"}  # since it is 0 already
        shaping = shaping_reward(phi, next_phi, terminated, **rule)
        if not torch.isfinite(shaping).all():
            problem = "the potential is not finite at an observation, which a table may not have."
            raise ArgumentError(problem, argument="potential")
        return next_tensordict.set(self.out_keys[0], mix(reward, shaping, self.shaping.weight))

    def forward(self, tensordict: Any) -> Any:
        """Shapes the rewards of a sample of a replay buffer."""
        return tensordict.set("next", self._step(tensordict, tensordict.get("next")))

    def transform_reward_spec(self, reward_spec: Any) -> Any:
        """Adds the shaped reward to the rewards of an environment."""
        like = reward_spec[self.in_keys[1]]
        reward_spec[self.out_keys[0]] = Unbounded(like.shape, device=like.device, dtype=like.dtype)
        return reward_spec


public.check_all(globals())
