# The public names of this room. `__init__.py` reads this file, and so do type checkers.
from .maps import (
    goal_maps as goal_maps,
    heatmap as heatmap,
    learned as learned,
    solution as solution,
)
from .panels import as_png as as_png, certificate as certificate, curves as curves
