"""Pictures.

Colours are safe for colour-blind readers (viridis, Okabe-Ito). No pyplot: figures are objects,
and nothing here touches a global backend.
"""

from drogo.plot.files import as_png
from drogo.plot.learning import curves, learned
from drogo.plot.maps import heatmap, profile
from drogo.plot.shaping import paths, returns

__all__ = ["as_png", "curves", "heatmap", "learned", "paths", "profile", "returns"]
