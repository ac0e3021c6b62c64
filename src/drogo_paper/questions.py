"""All questions, by name, in the order of the paper."""

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
    "shaping-curves": "shaping_curves",
    "formulations": "formulations",
    "environments": "environments",
    "natural-gradient": "natural_gradient",
    "ablation-tabular": "ablation_tabular",
    "ablation-network": "ablation_network",
    "theory": "theory",
}


def find(name: str) -> ModuleType:
    """Its module: `jobs(scope, get)` and `answer(scope, get)`."""
    if name not in QUESTIONS:
        near = difflib.get_close_matches(name, QUESTIONS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ArgumentError(
            f"there is no {name!r} to reproduce.{hint} Known: {', '.join(QUESTIONS)}."
        )
    return importlib.import_module(f"drogo_paper.{QUESTIONS[name]}")
