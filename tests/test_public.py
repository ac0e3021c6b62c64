"""The names and the types of arguments of public functions, and of classes that they return."""

import inspect

import gymnasium
import numpy as np
import pytest

import drogo
from drogo import Column, Drogo, OnlineTable, Transitions, collect, exact, fit, load
from drogo.errors import ArgumentTypeError
from drogo.learn import MLP
from raising import refused

BOX, TWO = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)


@pytest.mark.parametrize(
    ("argument", "function", "given"),
    [("env", collect, {"n": 3, "seed": 0}), ("sed", drogo.recommend, {"sed": 1}),
     ("mdp", exact.perron, {"mdp": 3, "lam": 2.0}), ("bounded", drogo.Spectrum, {"bounded": "x"}),
     ("lamb", Column, {"lamb": 2.0}), ("txt", drogo.GridWorld.parse, {"txt": "#"}),
     ("optimsm", OnlineTable(BOX, TWO).observe, {"optimsm": 1})],
)  # fmt: skip
def test_wrong_names_and_types_are_errors_of_this_library(argument, function, given, unchecked):
    refused(ArgumentTypeError, argument, function, **given)
    assert "lam?" in str(refused(ArgumentTypeError, "lamb", Column, lamb=2.0))
    assert "Optimiser" in str(refused(ArgumentTypeError, "learning_rate", Drogo, learning_rate=1))
    assert not drogo.learn.Policy(len, (2,), seed=np.int64(1)).key
    assert OnlineTable(BOX, TWO, until_found=np.True_).until_found


def test_help_describes_fields_also_inherited_ones():
    for kind, name in (
        (Column, "lam"),
        (Drogo, "updates"),
        (Drogo, "cap"),
        (drogo.Solution, "error"),
    ):
        assert f"\n{name}\n    " in inspect.getdoc(kind)
    assert "host_only" not in inspect.getdoc(Drogo)
    assert Drogo().__doc__ == Drogo.__doc__


class Parts(gymnasium.Env):
    """A walk to the right, whose position is one part of a `Dict`."""

    observation_space, action_space = gymnasium.spaces.Dict(at=BOX, time=BOX), TWO

    def reset(self, *, seed=None, options=None):
        self.at = np.zeros(2, np.float32)
        return {"at": self.at, "time": self.at}, {}

    def step(self, action):
        self.at = np.clip(self.at + np.float32([0.5 * action, 0]), 0, 1)
        return {"at": self.at, "time": self.at}, -1.0, bool(self.at[0] == 1), False, {}


def test_a_solution_knows_its_environment_and_its_policy_takes_a_dict(tmp_path):
    data = collect(Parts(), 200, seed=0, key="at", reward=-1.0)
    data.save(tmp_path / "data.npz")
    read = Transitions.load(tmp_path / "data.npz")
    error = refused(ArgumentTypeError, "rewards", collect, Parts(), 200, seed=0, rewards=-1.0)
    assert "mean reward?" in str(error)
    assert "drogo.Column" in str(refused(ArgumentTypeError, "problem", fit, read, lam=5.0))
    solution = fit(read, Column(lam=1.0), Drogo(updates=2, action_values=True), network=MLP(4, 1))
    solution.save(tmp_path / "fit.npz")
    again = load(tmp_path / "fit.npz")
    expected = {"env": "Parts", "key": "at", "reward": -1.0}
    assert (
        dict(data.origin) == solution.provenance["origin"] == again.provenance["origin"] == expected
    )
    assert "of Parts" in repr(again)
    seen, policy = Parts().reset()[0], again.policy(0)
    assert policy.predict(seen, deterministic=True)[0] == policy(seen["at"][None])[0]
    batch = {name: np.stack([part, part]) for name, part in seen.items()}
    assert policy.predict(batch)[0].shape == policy(batch).shape == (2,)
