"""Agents of the experiments: tabular ones, thousands of runs in one program, and deep ones."""

from drogo_paper.agents.comparison import Grid, compare
from drogo_paper.agents.counting import SampledChance, run_counting
from drogo_paper.agents.deep_discovery import discover_deep
from drogo_paper.agents.discovery import discover
from drogo_paper.agents.one_stage import one_stage
from drogo_paper.agents.option_learning import Kind, learn_with_options
from drogo_paper.agents.q_learning import q_learning
from drogo_paper.agents.representations import ExactDefault, LearnedDefault
from drogo_paper.agents.value_iteration import optimal_values

__all__ = [
    "ExactDefault", "Grid", "Kind", "LearnedDefault", "SampledChance", "compare", "discover",
    "discover_deep", "learn_with_options", "one_stage", "optimal_values", "q_learning",
    "run_counting",
]  # fmt: skip
