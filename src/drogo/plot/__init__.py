"""Figures, whose colours are safe for colour-blind readers. No global state is touched."""

from drogo.plot.maps import goal_maps, heatmap, learned, solution
from drogo.plot.panels import as_png, certificate, curves
from drogo.public import check_all

__all__ = ["as_png", "certificate", "curves", "goal_maps", "heatmap", "learned", "solution"]

check_all(globals())
