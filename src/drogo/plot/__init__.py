"""Figures, whose colours are safe for colour-blind readers. No global state is touched."""

from drogo import public
from drogo.plot.maps import goal_maps, heatmap, learned, solution
from drogo.plot.panels import as_png, certificate, curves

__all__ = ["as_png", "certificate", "curves", "goal_maps", "heatmap", "learned", "solution"]

public.check_all(globals())
