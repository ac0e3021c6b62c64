"""All questions by name: in the order of the paper, and then those of earlier papers."""

from __future__ import annotations

import difflib
import importlib
from types import ModuleType

from drogo.errors import ArgumentError

QUESTIONS = {
    "ring": "ring",
    "cosine": "cosine",
    "eigenvectors": "eigenvectors",
    "shaping": "shaping",
    "shaping-interval": "shaping_interval",
    "shaping-successor": "shaping_successor",
    "shaping-curves": "shaping_curves",
    "formulations": "formulations",
    "environments": "environments",
    "natural-gradient": "natural_gradient",
    "ablation-tabular": "ablation_tabular",
    "ablation-network": "ablation_network",
    "ablation-network-paper": "ablation_network_paper",
    "theory": "theory",
    "transfer": "transfer",
    "counts": "counts",
    "options": "options",
    "options-plain": "options_plain",
    "options-returns": "options_returns",
    "hindrance": "hindrance",
}
ON_REQUEST = ("options-plain", "options-returns", "hindrance")
"""These take long, and are run only if they are named."""


def find(name: str) -> ModuleType:
    """Returns the module of a question, with `jobs(scope, get)` and `answer(scope, get)`."""
    if name not in QUESTIONS:
        close = difflib.get_close_matches(name, QUESTIONS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ArgumentError(
            f"There is no {name!r} to reproduce.{hint} The names are {', '.join(QUESTIONS)}."
        )
    return importlib.import_module(f"drogo_paper.{QUESTIONS[name]}")
