"""A method and a problem from outside the library do whatever those of the library do."""

import subprocess
import sys

import numpy as np
import optax
import pytest
from gymnasium.spaces import Discrete

from drogo import MDP, Column, Drogo, Goals, OnlineTable, Regression, certify, fit, load, solve
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.learn import Optimiser
from problems.outside import ColumnWithCost, SquaredLogResidual
from raising import refused
from small_data import CHAIN, FAST, table_of, world_env

CORRIDOR = table_of([0, 1, 2], [1, 2, 3], -2.0, [False, False, True], copies=50)
"""Three steps that cost 2 each: at lam = 4, v is minus half the number of steps."""
BY_HAND = [-1.5, -1.0, -0.5, 0.0]


def test_methods_and_problems_from_outside_are_fitted_and_swept(tmp_path):
    method, optimiser = SquaredLogResidual(updates=600), Optimiser(step_size=0.05)
    seen = []
    solution = fit(
        CORRIDOR, Column(4.0), method, optimiser=optimiser, seeds=2, callbacks=[seen.append],
        checkpoint=tmp_path / "checkpoint.npz", truth={"by hand": np.array(BY_HAND)},
    )  # fmt: skip
    assert solution.v == pytest.approx(np.array([BY_HAND] * 2), abs=1e-3)
    assert solution.method.name == "SquaredLogResidual"
    assert seen[-1].row["difference_by hand"].max() < 1e-3
    solution.save(tmp_path / "fit.npz")
    again = load(tmp_path / "fit.npz")
    assert np.array_equal(again(np.arange(4)), solution(np.arange(4)))
    assert again.method == solution.method
    # Another process has not imported the class, and then says so.
    code = f"import drogo; drogo.load({str(tmp_path / 'fit.npz')!r})"
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": ""}
    elsewhere = subprocess.run(  # noqa: PLW1510
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert "outside.SquaredLogResidual" in elsewhere.stderr.splitlines()[-1]
    refused(ArgumentError, "method", fit, CORRIDOR, Goals(4.0), method)
    # Gradient descent from 0, where each state is a third of the data: v(s) moves by a hundredth of
    # sharpness times -0.5 / 3, and v(s') is held constant.
    method = SquaredLogResidual(updates=1, sharpness=[1.0, 6.0])
    swept = fit(CORRIDOR, Column(4.0), method, optimiser=optax.sgd(0.01))
    for (sharpness,), solution in swept.items():
        assert solution.v[0, :3] == pytest.approx(np.full(3, -0.005 * sharpness / 3), rel=1e-5)
        # v(s) + 0.5 - v(s') before the update, in units of v
        assert solution.history["worst"][0] == pytest.approx([0.5])
    data = table_of([0, 1, 2], [1, 2, 3], 0.0, [False, False, True], copies=50)
    swept = fit(data, ColumnWithCost(lam=4.0, cost=[2.0, 4.0]))
    for (cost,), solution in swept.items():
        assert solution.method.name == "Regression"
        assert solution.v[0] == pytest.approx(cost / 2 * np.array(BY_HAND), abs=0.03)


@pytest.mark.parametrize("method", [Drogo(updates=2000), Regression()])
def test_a_problem_from_outside(method, tmp_path):
    """Rewards of -1.5 with a cost of 0.5 are those of the corridor."""
    data = table_of([0, 1, 2], [1, 2, 3], -1.5, [False, False, True], copies=50)
    problem = ColumnWithCost(lam=4.0, cost=0.5)
    solution = fit(data, problem, method, optimiser=FAST)
    assert solution.v[0] == pytest.approx(BY_HAND, abs=0.02)
    assert solution.status == ("converged",)
    mdp = MDP.from_arrays(np.eye(4, k=1)[None], np.array([-1.5, -1.5, -1.5, 0.0]), [3])
    for source in (data, mdp):
        assert solve(source, problem).v[0] == pytest.approx(BY_HAND, abs=1e-9)
    refused(ArgumentError, "solution", certify, solution, world_env(CHAIN))  # has other rewards
    refused(ArgumentTypeError, "problem", OnlineTable, Discrete(4), Discrete(1), problem)
    solution.save(tmp_path / "fit.npz")
    again = load(tmp_path / "fit.npz")
    assert (type(again.problem), again.problem.cost) == (ColumnWithCost, 0.5)
    assert np.array_equal(again(np.arange(4)), solution(np.arange(4)))
    assert again.potential()(np.arange(4)) == pytest.approx([-3, -2, -1, 0], abs=0.05)
    other = ColumnWithCost(lam=4.0, cost=0.25)
    refused(ArgumentError, "problem", fit, data, other, method, continue_from=solution)
    refused(ArgumentError, "cost", ColumnWithCost, cost=-1.0)
