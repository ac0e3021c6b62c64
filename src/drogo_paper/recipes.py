"""The settings of the paper's fits: a method, a network and an optimiser for each objective."""

import math
from dataclasses import fields, replace
from functools import partial
from typing import Any

import drogo
from drogo.data import Transitions
from drogo.learn import CNN, MLP, Optimiser, Sample, Table
from drogo.learn.method import Scalar
from drogo_paper.newest_networks import DENSE, Strided

STEP_SIZES = {"paper": 1e-5, "recommended": 1e-3}
DELTA = 0.001
PENALISED = {"updates": 40_000, "batch_size": 2000, "weigh_actions": False, "stop_early": False}
"""The paper's settings of the objectives with a norm penalty."""


class IntendedGDO(drogo.GDO):
    """The loss (1 + exp(-r/lam)) u(s)^2 - u(s) u(s') + b (u(s)^2 - c)(u(s'')^2 - c), of which the
    mean without penalty is u'(I + R - P~)u / n for every P. That of the printed sample is the same
    only if every state is entered as often as it is left."""

    def loss(self, output: Scalar, next_output: Scalar, sample: Sample) -> Scalar:
        norm = (output**2 - self.target_norm) * (sample.moment - self.target_norm)
        return (1 + sample.cost) * output**2 - output * next_output + self.penalty * norm


METHODS = {
    "gdo": drogo.GDO,
    "gdo_intended": IntendedGDO,
    "log_gdo": drogo.LogGDO,
    "natural_gdo": drogo.NaturalGDO,
    "drogo": drogo.Drogo,
}


def recipe(
    data: Transitions,
    settings: str,
    objective: str = "drogo",
    *,
    newest: bool = False,
    **changed: Any,
) -> dict[str, Any]:
    """Returns the arguments method, network and optimiser of `drogo.fit`: the `paper` settings, or
    those `recommended` for the data, with `changed` settings or lists of them. The `newest`
    networks take the place of the paper's."""
    kind, problem = METHODS[objective], drogo.Column()
    if settings == "paper":
        of_penalised = dict(PENALISED)
        if kind is drogo.NaturalGDO:
            of_penalised |= {"scaled": False, "cap": math.inf, "emphasis": 0.0}
        method = drogo.Paper() if kind is drogo.Drogo else kind(**of_penalised)
        shapes = {1: Table(), 4: CNN()}
        network = shapes.get(data.observations.ndim, MLP(frequencies=0, normalise=False))
        if newest and data.observations.ndim > 1:
            images = partial(Strided, data.observations.shape[1:3])
            network = images if data.observations.ndim == 4 else DENSE
        optimiser = Optimiser("rmsprop", STEP_SIZES["paper"], "constant")
    else:
        method = kind()
        network = problem.network(data, method)
        method = method.resolve(problem.recommended(data, method, network))
        optimiser = problem.optimiser(data, method, network)
    names = {field.name for field in fields(Optimiser)}
    of_optimiser = {name: value for name, value in changed.items() if name in names}
    of_method = {name: value for name, value in changed.items() if name not in names}
    return {
        "method": replace(method, **of_method),
        "network": network,
        "optimiser": replace(optimiser, **of_optimiser),
    }
