"""Figures.

Colours are safe for colour-blind readers (viridis, Okabe-Ito). Figures are objects of matplotlib
and are made without pyplot, so that no global state is touched.
"""

from drogo.plot.fields import certificate, learned
from drogo.plot.goal_page import goal_page
from drogo.plot.maps import distances, goal_maps, heatmap, profile
from drogo.plot.panels import as_png, curves

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
