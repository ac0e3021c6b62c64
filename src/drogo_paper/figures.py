"""What all figures of the report have in common."""

from __future__ import annotations

from matplotlib.figure import Figure

PAD = 0.1
"""Inches around each panel. Without them, texts at the edge touch it."""


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure, of a size in inches, in which panels make room for their texts."""
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=PAD, h_pad=PAD)
    return figure
