"""Figures, whose colours are safe for colour-blind readers. No global state is touched."""

from drogo.plot.maps import distances, goal_maps, goal_page, heatmap, learned, profile
from drogo.plot.panels import as_png, certificate, curves

__all__ = [
    "as_png",
    "certificate",
    "curves",
    "distances",
    "goal_maps",
    "goal_page",
    "heatmap",
    "learned",
    "profile",
]
