"""The names and the types of arguments of public functions."""

import inspect

import gymnasium
import numpy as np
import pytest

import drogo
from drogo import Column, Drogo, OnlineTable, collect, exact, fit
from drogo.errors import ArgumentTypeError
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
    env = gymnasium.make("CartPole-v1")
    error = refused(ArgumentTypeError, "rewards", collect, env, 9, seed=0, rewards=-1.0)
    assert "mean reward?" in str(error)
    data = collect(env, 9, seed=0)
    assert "drogo.Column" in str(refused(ArgumentTypeError, "problem", fit, data, lam=5.0))


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
