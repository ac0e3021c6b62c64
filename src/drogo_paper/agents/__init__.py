"""Agents of the experiments: tabular ones, thousands of runs in one program, and deep ones."""

from drogo_paper.agents.counting import SampledChance, run_counting
from drogo_paper.agents.deep_discovery import discover_deep
from drogo_paper.agents.discovery import Cycle, discover
from drogo_paper.agents.one_stage import MapSettings, one_stage
from drogo_paper.agents.q_learning import optimal_values, q_learning
from drogo_paper.agents.representations import ExactDefault, LearnedDefault
from drogo_paper.agents.shaping_experiment import Grid, compare
from drogo_paper.agents.training import Training

__all__ = [
    "Cycle", "ExactDefault", "Grid", "LearnedDefault", "MapSettings", "SampledChance",
    "Training", "compare", "discover", "discover_deep", "one_stage",
    "optimal_values", "q_learning", "run_counting",
]  # fmt: skip
