"""Deviations of the reproduction from the paper, and their reasons."""

from drogo_paper.ablation import NETWORK_PAPER, TABULAR
from drogo_paper.shaping import EVERY

DEVIATIONS = [
    "The paper's text defines its eigenvector by R - P~, but with an absorbing "
    "terminal state that matrix is indefinite, and the loss converges to another vector, `column`. "
    "Every cosine names its vector.",
    "The number of updates is not printed; the paper preset makes 40,000 (400 passes), which "
    "matches the scale of its figures.",
    "The fast preset: Adam with a cosine schedule, all transitions in every update, Fourier "
    "features of coordinates, a cap and a ceiling inside the loss, and more weight on states "
    "whose equation is violated most. Its solution is that of the paper's loss.",
    "In the shaping experiments potentials are divided by their mean step between "
    "neighbouring cells, which the paper's text leaves out; without it its grid over the "
    "weight means nothing.",
    "Random numbers of the Q-learning agents are shared between methods, seed by seed.",
    "The map of the ring (figure 1) is not printed; ours follows its description.",
    f"Agents are evaluated every {EVERY} steps; the paper does not print its interval, which must "
    "be a shorter one.",
    "With the fast preset, the ablation with a network searches step sizes around that "
    "preset's own (1e-4 to 1e-2) in runs of 3,000 updates with two seeds; the paper's grid is "
    "1e-5 to 1e-3.",
    f"The ablation with a network and the paper's optimiser has the paper's grid, but "
    f"{NETWORK_PAPER.most_seeds} seeds and {NETWORK_PAPER.updates:,} updates, and its search "
    f"{NETWORK_PAPER.search_seeds} seed and {NETWORK_PAPER.search_updates:,} updates. The one with "
    f"a table has {TABULAR.most_seeds} seeds.",
    "Proposition 3.2 as printed needs a doubly stochastic P; see the theory table. The objective "
    "gdo_intended of the ablations does not.",
]
