"""Problems, methods, networks and optimisers: checked when they are made, and plain JSON in files."""

import json
import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, strategies as st

import drogo
from drogo import Column, Drogo, Paper, Regression, Spectrum
from drogo.errors import ArgumentError, ArgumentTypeError, DamagedFile
from drogo.learn import AbstractMethod, AbstractProblem, Optimiser
from drogo.learn.architectures import AbstractArchitecture
from drogo.learn.settings import as_json, from_json, grid_of
from drogo.mdp.costs import Costs
from raising import raises, refused
from small_data import ring

POSITIVE = st.floats(1e-3, 1e6)
SHARE, FLAG = st.floats(0.0, 0.99), st.booleans()
WHOLE = st.integers(1, 1000)
FIELDS = {
    **dict.fromkeys(("lam", "tolerance", "target_norm", "delta", "step_size", "clip_norm"), POSITIVE),
    **dict.fromkeys(("radius", "emphasis", "penalty"), st.none() | POSITIVE),
    **dict.fromkeys(("weigh_actions", "stop_early", "scaled", "normalise"), FLAG),
    **dict.fromkeys(("action_values", "bounded", "negative"), st.none() | FLAG),
    **dict.fromkeys(("most_goals", "vectors", "width", "depth", "components", "length"), WHOLE),
    "near": SHARE, "leak": SHARE, "terminal_fraction": st.none() | SHARE,
    "updates": st.none() | WHOLE, "batch_size": st.none() | st.just("all") | WHOLE,
    "default_policy": st.none() | st.lists(POSITIVE, min_size=2, max_size=4),
    "costs": st.none() | st.fixed_dictionaries({"step": POSITIVE, "charge": SHARE, "best": POSITIVE}),
    "reference": st.none() | st.lists(POSITIVE, min_size=1, max_size=3),
    "cap": st.just(math.inf) | st.just("auto") | POSITIVE, "frequencies": st.integers(0, 99),
    "target_rate": st.none() | st.floats(0.01, 1.0), "discount": st.floats(0.01, 0.99),
    "matrix": st.sampled_from(["laplacian", "successor", "default"]),
    "name": st.sampled_from(["adam", "rmsprop"]), "schedule": st.sampled_from(["constant", "cosine"]),
}  # fmt: skip
WRONG = {
    "lam": [-1.0, 0, "20", 10**400, math.nan, 1e300, True, [], [1.0, 1]], "tolerance": [0.0],
    "default_policy": ["x"], "radius": [-1.0], "most_goals": [0], "near": [1.5], "reached": [3],
    "vectors": [0], "matrix": ["graph"], "discount": [1.0], "updates": [0, 2.5, 2**70],
    "batch_size": [0, "some"], "weigh_actions": [3], "stop_early": ["no"], "action_values": [2],
    "cap": [-1.0, "none", math.nan], "scaled": [2], "emphasis": [-1.0], "target_rate": [0.0, 1.5],
    "terminal_fraction": [1.0], "penalty": [-1.0], "target_norm": [0.0], "delta": [0.0],
    "name": ["sgd"], "schedule": ["linear"], "step_size": [0.0], "clip_norm": [-1.0],
    "width": [0, True, 2**40], "depth": [0], "frequencies": [-1], "leak": [1.0], "normalise": [3],
    "negative": [3], "components": [0],
}  # fmt: skip
BASES = (AbstractProblem, AbstractMethod, AbstractArchitecture, Optimiser)


def kinds_of(base):
    """The classes of the library that a user makes, among a class and those that derive from it."""
    private = base.__name__.startswith(("Abstract", "Custom")) or base.__module__[:6] != "drogo."
    derived = {kind for child in base.__subclasses__() for kind in kinds_of(child)}
    return derived if private else {base, *derived}


KINDS = sorted({kind for base in BASES for kind in kinds_of(base)}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_settings_survive_json(kind, data):
    names = {field.name for field in fields(kind)} - {"reached", "centred"}
    strategies = {name: FIELDS[name] for name in sorted(names)}
    given_fields = data.draw(st.fixed_dictionaries({}, optional=strategies))
    if given_fields.get("costs"):  # which beartype checks with random numbers: not in a strategy
        given_fields["costs"] = Costs(**given_fields["costs"])
    given_settings = kind(**given_fields)
    stored = json.loads(json.dumps(as_json(given_settings), allow_nan=False))
    base = next(base for base in BASES if issubclass(kind, base))
    again = from_json(base, stored, None, "part")
    assert type(again) is kind
    for field in fields(kind):
        before, after = (getattr(part, field.name) for part in (given_settings, again))
        assert np.array_equal(before, after) if before is not None else after is None
    assert as_json(again) == as_json(given_settings)
    assert from_json(base, stored, given_settings, "part") is not None


def test_stored_settings_are_completed_and_not_believed():
    """What `fit` resolved is in the file; what the user set must agree."""
    resolved = Drogo(updates=7, batch_size="all", cap=2.5, emphasis=0.5, target_rate=1.0,
                     terminal_fraction=0.0, action_values=False)  # fmt: skip
    stored = as_json(resolved)
    assert from_json(AbstractMethod, stored, Drogo(updates=7), "method") == resolved
    for other in (Drogo(updates=8), Drogo(cap=3.0), Regression()):
        refused(ArgumentError, "method", from_json, AbstractMethod, stored, other, "method")
    column, unknown = as_json(Column()), {"custom": "my.function"}
    changes = ({"class": "Unheard"}, {"class": "os.system"}, unknown, {"default_policy": unknown})
    damaged = [column | wrong for wrong in ({"surplus": 3}, {"lam": -1.0}, {"lam": "inf"})]
    cases = {ArgumentError: [column | change for change in changes],
             DamagedFile: [*damaged, 3, "Column", [1]]}  # fmt: skip
    for kind, stored in cases.items():
        for wrong in stored:
            refused(kind, None, from_json, AbstractProblem, wrong, None, "problem")


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_fields(kind, unchecked):
    """A user has no type checker at run time, which would raise its own error here."""
    names = [field.name for field in fields(kind)]
    for wrong in ({name: value} for name in names for value in WRONG.get(name, ())):
        with pytest.raises(ArgumentError) as caught:
            kind(**wrong)
        assert type(caught.value) in (ArgumentError, ArgumentTypeError)
        assert {caught.value.argument} == wrong.keys()


@pytest.mark.parametrize(
    ("name", "hint"),
    [("seed", "mean seeds"), ("learning_rate", "step_size"), ("lam", "Column"), ("cap", "Drogo")],
)
@pytest.mark.usefixtures("unchecked")
def test_an_argument_of_fit_that_belongs_elsewhere(name, hint):
    with raises(ArgumentTypeError, name) as caught:
        drogo.fit(ring()[0], Column(), **{name: 1})
    assert hint in str(caught.value)


def test_the_papers_numbers_lams_of_matrices_and_numbers_beyond_those_of_numpy(unchecked):
    expected = {"updates": 40_000, "batch_size": 2000, "cap": math.inf, "target_rate": 1.0}
    off = {name: value for name, value in vars(Paper()).items() if name not in expected}
    assert {name: getattr(Paper(), name) for name in expected} == expected
    assert not any(off.values())
    assert {drogo.Goals, drogo.ALLO, drogo.learn.Quasimetric, Optimiser} < set(KINDS)
    refused(ArgumentError, "lam", Spectrum, 2, lam=[1.0, 2.0])
    assert len(grid_of(Spectrum(2, lam=[1.0, 2.0], matrix="default"), drogo.ALLO())) == 2
    numbers = (Column(lam=2**70).lam, Drogo(cap=2**80).cap)
    assert (numbers, *map(type, numbers)) == ((2.0**70, 2.0**80), float, float)
