# The public names of this room. `__init__.py` reads this file, and so do type checkers.
from .costs import Costs as Costs
from .model import MDP as MDP, Edges as Edges, HasMDP as HasMDP
