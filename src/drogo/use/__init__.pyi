# The public names of this room. `__init__.py` reads this file, and so do type checkers.
from . import online as online, options as options, rivals as rivals
from .baselines import (
    successor_distance as successor_distance,
    successor_potential as successor_potential,
)
from .counts import (
    CountedStep as CountedStep,
    DefaultCounts as DefaultCounts,
    SuccessorCounts as SuccessorCounts,
)
from .goals import GoalShaping as GoalShaping
from .learned_counts import LearnedCounts as LearnedCounts
from .online import (
    AbstractOnlineMap as AbstractOnlineMap,
    AbstractShaping as AbstractShaping,
    BonusWrapper as BonusWrapper,
    OnlineConfig as OnlineConfig,
    OnlineLearner as OnlineLearner,
    OnlineMap as OnlineMap,
    OnlineShaping as OnlineShaping,
    OnlineState as OnlineState,
    OnlineTable as OnlineTable,
    Promises as Promises,
    Steps as Steps,
    VectorOnlineShaping as VectorOnlineShaping,
    make_learner as make_learner,
)
from .options import (
    Option as Option,
    OptionWrapper as OptionWrapper,
    TabularOption as TabularOption,
    climb as climb,
    learned_option as learned_option,
    make_option as make_option,
    solve_option as solve_option,
)
from .rivals import RND as RND, Frozen as Frozen, OwnValue as OwnValue
from .shaping import (
    PotentialShaping as PotentialShaping,
    VectorPotentialShaping as VectorPotentialShaping,
)
