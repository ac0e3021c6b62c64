"""Tabular Q-learning, thousands of runs in one program, and an experiment with shaped rewards."""

from drogo.agents.comparison import Grid, compare
from drogo.agents.q_learning import Runs, q_learning
from drogo.agents.value_iteration import optimal_values

__all__ = ["Grid", "Runs", "compare", "optimal_values", "q_learning"]
