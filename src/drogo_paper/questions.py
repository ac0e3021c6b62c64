"""All questions by name: in the order of the paper, and then those of earlier papers."""

from __future__ import annotations

import difflib
import importlib
from types import ModuleType

from drogo.errors import ArgumentError
from drogo_paper.scope import Question

QUESTIONS = {
    "ring": "illustrations",
    "cosine": "cosine",
    "eigenvectors": "cosine",
    "shaping": "shaping",
    "shaping-interval": "shaping",
    "shaping-successor": "shaping_successor",
    "shaping-curves": "shaping",
    "formulations": "illustrations",
    "environments": "illustrations",
    "natural-gradient": "illustrations",
    "ablation-tabular": "ablation_answer",
    "ablation-network": "ablation_answer",
    "ablation-network-paper": "ablation_answer",
    "theory": "theory",
    "transfer": "transfer",
    "counts": "counts",
    "options": "options",
    "options-plain": "options",
    "options-returns": "options_returns",
    "hindrance": "hindrance",
}
ON_REQUEST = ("options-plain", "options-returns", "hindrance")
"""Questions that take long, and are run only if they are named."""


def find(name: str) -> Question | ModuleType:
    """Returns a question: the module, or an entry of its `QUESTIONS` if it has several."""
    if name not in QUESTIONS:
        close = difflib.get_close_matches(name, QUESTIONS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ArgumentError(
            f"There is no {name!r} to reproduce.{hint} The names are {', '.join(QUESTIONS)}.",
            argument="names",
        )
    module = importlib.import_module(f"drogo_paper.{QUESTIONS[name]}")
    return getattr(module, "QUESTIONS", {}).get(name, module)
