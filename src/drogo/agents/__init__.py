"""Tabular agents, thousands of runs in one program: experiments with shaped rewards and bonuses."""

from drogo.agents.comparison import Grid, compare
from drogo.agents.counting import CountingRuns, Drawn, run_counting
from drogo.agents.deep_discovery import DeepDiscovery, discover_deep
from drogo.agents.discovery import Discovery, Moment, discover
from drogo.agents.one_stage import OneStageRuns, one_stage
from drogo.agents.option_learning import Kind, OptionRuns, learn_with_options
from drogo.agents.q_learning import Runs, q_learning
from drogo.agents.representations import (
    AbstractVectors,
    ExactDefault,
    ExactSuccessor,
    LearnedDefault,
    LearnedSuccessor,
)
from drogo.agents.value_iteration import optimal_values

__all__ = [
    "AbstractVectors",
    "CountingRuns",
    "DeepDiscovery",
    "Discovery",
    "Drawn",
    "ExactDefault",
    "ExactSuccessor",
    "Grid",
    "Kind",
    "LearnedDefault",
    "LearnedSuccessor",
    "Moment",
    "OneStageRuns",
    "OptionRuns",
    "Runs",
    "compare",
    "discover",
    "discover_deep",
    "learn_with_options",
    "one_stage",
    "optimal_values",
    "q_learning",
    "run_counting",
]
