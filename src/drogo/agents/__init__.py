"""Tabular Q-learning, thousands of runs in one program, and experiments with shaped rewards."""

from drogo.agents.comparison import Grid, compare
from drogo.agents.one_stage import OneStageRuns, one_stage
from drogo.agents.q_learning import Runs, q_learning
from drogo.agents.value_iteration import optimal_values

__all__ = [
    "Grid",
    "OneStageRuns",
    "Runs",
    "compare",
    "one_stage",
    "optimal_values",
    "q_learning",
]
