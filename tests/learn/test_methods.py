"""The losses of all methods, by hand and by enumeration, and the residuals of their solutions."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import drogo
from drogo import GDO, Column, Drogo, LogGDO, NaturalGDO, Spectrum, exact, fit
from drogo.learn import Learner, Objective, Optimiser, Sample
from drogo.learn.batches import make_plan, weighed_batch
from drogo.learn.judge import cosine, differences, in_groups, state_residuals, transition_slopes
from drogo.learn.networks import TableNetwork
from random_mdps import dense, random_mdp
from small_data import CHAIN, SMALL, Fixed, balanced, line

LN2 = float(np.log(2.0))
PLAIN = Drogo(cap=np.inf, scaled=False, action_values=False)
NATURAL = NaturalGDO(cap=np.inf, scaled=False, penalty=0.5)
COLUMN = Column(1.0)
U, NEXT = jnp.array([1.0, -2.0]), jnp.array([3.0, 0.5])
PRODUCTS = [[1.5, 0.25], [0.25, 0.5]]
LAM, PENALTY, NORM = 5.0, 0.7, 0.4
MDP = random_mdp(5, 7)
V = np.random.default_rng(0).normal(size=7).astype(np.float32)
R, P = dense(MDP, LAM)
R = np.diag(R)
TARGET = 2.0
FROZEN = Optimiser(step_size=1e-30)
V_COLUMN = exact.log_column(CHAIN.mdp, 20.0)


def a_sample(objective, cost=3.0, moment=4.0, terminated=False, extra=None):
    scaled = None if extra is None else objective.extra_scale * extra
    numbers = (scaled, objective.scale, objective.ceiling)
    log_cost, moment = jnp.log(jnp.float32(cost)), jnp.asarray(moment, jnp.float32)
    return Sample(objective.problem, log_cost, jnp.asarray(terminated), moment, *numbers)


def value_and_slopes(method, v, v_next, problem=COLUMN, ceiling=np.inf, **sample):
    objective = Objective(problem, method, ceiling=ceiling)
    given, loss = a_sample(objective, **sample), objective.method.loss
    both = (jnp.asarray(v, jnp.float32), jnp.asarray(v_next, jnp.float32))
    slopes = jax.grad(lambda a, b: loss(a, b, given), argnums=(0, 1))(*both)
    return float(loss(*both, given)), *(np.asarray(part).tolist() for part in slopes)


@pytest.mark.parametrize(
    ("method", "v", "v_next", "expected"),
    [
        # u = 2, u' = 1: 1/2 + 3*4 + 0.5*(4-1)*(4-1) = 17; d/du = 1 + 12 + 0.5*4*3 = 19; d/du' = -1.
        (GDO(penalty=0.5), 2.0, 1.0, (17.0, 19.0, -1.0)),
        # The same point in logs: the same value, slopes times u and u'.
        (LogGDO(penalty=0.5), LN2, 0.0, (17.0, 38.0, -1.0)),
        # [3 - exp(0 - ln 2) + 0.5 (4 - 1)] = 4 is the slope; the value is 4 ln 2; s' gets nothing.
        (NATURAL, LN2, 0.0, (4 * LN2, 4.0, 0.0)),
        # Divided by the cost of 3.
        (NaturalGDO(cap=np.inf, penalty=0.5), LN2, 0.0, (4 / 3 * LN2, 4 / 3, 0.0)),
        # [3 - exp(ln 2 - 0)] = 1 is the slope at v = 0, v' = ln 2; divided by the cost it is 1/3.
        (PLAIN, 0.0, LN2, (0.0, 1.0, 0.0)),
        (Drogo(cap=np.inf), 0.0, LN2, (0.0, 1 / 3, 0.0)),
        # Half of the square of 5 - 3.
        (drogo.Regression(), 5.0, 3.0, (2.0, 2.0, -2.0)),
    ],
)
def test_one_vector_by_hand(method, v, v_next, expected):
    assert value_and_slopes(method, v, v_next) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_caps_ceilings_outputs_and_action_values_by_hand():
    """A cap of ln 2 turns exp(5) into 2, a ceiling of 0 turns v(s') = 5 into 0. At a terminal state
    the cap is at least 20, or the problem's own, and there is no ceiling."""
    capped, natural = Drogo(cap=LN2, scaled=False), NaturalGDO(cap=LN2, scaled=False, penalty=0.5)
    for (method, v, v_next), sample, slope in (
        ((capped, 0.0, 5.0), {}, 1.0),
        ((PLAIN, 0.0, 5.0), {"ceiling": 0.0}, 2.0),
        ((capped, -5.0, 0.0), {"terminated": True}, 3 - np.exp(5)),
        ((capped, 0.0, 30.0), {"terminated": True}, 3 - np.exp(20.0)),
        ((PLAIN, 0.0, LN2), {"terminated": True, "ceiling": 0.0}, 1.0),
        ((natural, 0.0, 5.0), {}, 2.5),
    ):
        assert value_and_slopes(method, v, v_next, **sample)[1] == pytest.approx(slope, rel=1e-6)
    # Anchored methods take terminal_reward / lam; penalised ones leave the output alone. e, log e,
    # and the constant that gives e unit norm: |(3, -4)| = 5. A scale of 3 makes v = 3 of 1.
    arguments = (jnp.array([9.0, 9.0]), jnp.array([True, False]), jnp.array([-6.0, -6.0]))
    assert np.allclose(Objective(Column(2.0), PLAIN).next_output(*arguments), [-3.0, 9.0])
    assert np.allclose(Objective(Column(2.0), NATURAL).next_output(*arguments), [9.0, 9.0])
    out = jnp.array([3.0, -4.0])
    linear, natural = (Objective(Column(), method) for method in (GDO(), NATURAL))
    assert np.allclose(linear.log_e(out), np.log([3.0, 4.0]))
    assert np.allclose(linear.entry(out), out)
    assert float(linear.log_scale(linear.log_e(out))) == pytest.approx(np.log(5.0))
    assert float(linear.moment(out, jnp.array([0.75, 0.25]))) == pytest.approx(0.75 * 9 + 0.25 * 16)
    assert np.allclose(natural.entry(jnp.log(jnp.array([3.0, 4.0]))), [3.0, 4.0])
    assert float(Objective(Column(), PLAIN).log_scale(out)) == 0.0
    scaled = Objective(Column(), PLAIN, scale=3.0)
    assert scaled.log_e(jnp.ones(1)) == scaled.at_action(jnp.ones(1), None) == pytest.approx([3.0])
    # Outputs ln 2 and ln 6 are v = ln 8. For the second action, taken half of the time by the
    # default policy, with v' = ln 3 and a cost of 2: [2 / 0.5 - exp(ln 3 - ln 6)] = 3.5.
    method, outputs = Drogo(cap=np.inf, scaled=False, action_values=True), jnp.array([[2.0, 6.0]])
    objective, outputs = Objective(Column(), method), jnp.log(outputs)
    taken = objective.at_action(outputs, jnp.array([1]))
    numbers = (*objective.log_e(outputs), *objective.entry(outputs), *taken)
    assert numbers == pytest.approx((np.log(8), 8.0, np.log(6)), rel=1e-6)
    slope = value_and_slopes(method, taken[0], np.log(3.0), cost=2.0 / 0.5)[1]
    assert slope == pytest.approx(3.5, rel=1e-5)


def test_the_gain_of_a_task_that_never_ends_by_hand():
    """With k = 2 * 0.25, -r/lam = 0.3 and v(s') - v(s) = 0.5 the bracket is, divided by
    exp(k - r/lam), 1 - exp(0.5 - 0.8) = 0.2591818; a mean of 0.7 adds to the slope of v alone."""
    objective = Objective(drogo.Continuing(1.0), Drogo(cap=np.inf), extra_scale=2.0)

    def loss(v, raw):
        sample = a_sample(objective, np.exp(0.3), 0.7, extra=raw)
        return objective.method.loss(v, jnp.float32(1.5), sample)

    slopes = jax.grad(loss, argnums=(0, 1))(jnp.float32(1.0), jnp.float32(0.25))
    assert slopes == pytest.approx((0.2591818 + 0.7, 2 * 0.2591818), abs=1e-6)
    assert objective.needs_moment
    assert float(objective.moment(jnp.array([1.0, 3.0]), jnp.array([0.25, 0.75]))) == 2.5


def test_energies_by_hand():
    for matrix, bounded, terminated, expected in (
        ("laplacian", False, False, [2.0, 3.125]),  # (1 - 3)^2 / 2 and (-2 - 0.5)^2 / 2
        ("default", False, False, [3.0 - 3.0, 12.0 + 1.0]),  # cost u^2 - u u'
        ("successor", False, False, [1.0 - 2.7, 4.0 + 0.9]),  # u^2 - discount u u'
        # The differences take the place of u^2 - u u'.
        ("default", True, False, [2.0 + 2.0, 8.0 + 3.125]),
        ("successor", True, False, [0.1 * 1 + 0.9 * 2.0, 0.1 * 4 + 0.9 * 3.125]),
        # A terminal state has a zero row.
        *(("successor", bounded, True, [1.0, 4.0]) for bounded in (False, True)),
    ):
        problem = Spectrum(2, matrix=matrix, discount=0.9, lam=2.0, bounded=bounded)
        sample = a_sample(Objective(problem, GDO(penalty=2.0)), terminated=terminated)
        assert np.allclose(sample.energy(U, NEXT), expected, atol=1e-6)


def test_several_vectors_and_allo_by_hand():
    """<u, u> - 1 is [[0, -2], [-2, 3]] here, and [[0.5, 0.25], [0.25, -0.5]] in the other batch. In
    `GGDO` the first vector alone counts twice, and everything with the second one once, of two."""
    given, penalty = {"problem": Spectrum(2), "moment": PRODUCTS}, 2 * (-2) * 0.25 + 3 * (-0.5)
    for kind, loss in ((GDO, 5.125 + 2 * penalty), (drogo.GGDO, (2.0 + 5.125) / 2 + penalty)):
        assert value_and_slopes(kind(penalty=2.0), U, NEXT, **given)[0] == pytest.approx(loss)
    # 2 (u - u')/2 + sum_{j <= i} (m_ij + 2 b excess_ij) u_j, with b = 2.
    objective = Objective(Spectrum(2), drogo.ALLO(penalty=2.0))

    def loss(u, raw):
        return objective.method.loss(u, NEXT, a_sample(objective, moment=PRODUCTS, extra=raw))

    slopes, climb = jax.grad(loss, argnums=(0, 1))(U, jnp.array([[0.1, 9.0], [0.2, -0.3]]))
    pull = [[0.1 + 4 * 0.5, 0.0], [0.2 + 4 * 0.25, -0.3 - 4 * 0.5]]
    expected = [-2.0 + pull[0][0], -2.5 + pull[1][0] - 2 * pull[1][1]]
    assert slopes == pytest.approx(expected, abs=1e-6)
    assert np.allclose(climb, [[-0.5, 0.0], [-0.25, 0.5]])  # minus the excess, where j <= i
    assert objective.method.extra(objective.problem).shape == (2, 2)


@pytest.mark.parametrize("kind", [NaturalGDO, GDO, LogGDO])
def test_mean_gradients(kind):
    """That of `NaturalGDO` is proposition 3.7: R - exp(-v) (P u) + b (mean u^2 - c), with P for P~
    (the paper's own approximation: it samples forwards). Those of the others are the gradients of
    1/2 E(u - u')^2 + E R u^2 + b (E u^2 - c)^2: the moment is differentiated as well, which supplies
    the factor 2. In logs they have another factor u, which the natural gradient removes."""
    plain = {"cap": np.inf, "scaled": False} if kind is NaturalGDO else {}
    objective = Objective(Column(LAM), kind(penalty=PENALTY, target_norm=NORM, **plain))
    s, t = np.nonzero(P)
    weight, log_cost = (jnp.asarray(part, jnp.float32) for part in (P[s, t] / 7, np.log(R[s])))
    u = np.exp(V)

    def loss(out):
        moment = objective.moment(out, jnp.full(7, 1 / 7, jnp.float32))
        rest = (log_cost, jnp.zeros(len(s), bool), moment, None)
        return weight @ objective.losses(out[s], out[t], *rest)

    gradient = 7 * np.asarray(jax.grad(loss)(jnp.asarray(u if kind is GDO else V, jnp.float32)))
    gaps, excess = P * (u[:, None] - u[None, :]), PENALTY * ((u**2).mean() - NORM)
    of_u = gaps.sum(axis=1) - gaps.sum(axis=0) + 2 * R * u + 4 * excess * u
    expected = {NaturalGDO: R - (P @ u) / u + excess, GDO: of_u, LogGDO: u * of_u}[kind]
    assert gradient == pytest.approx(expected, rel=1e-4, abs=1e-5)


def learner_of(method):
    objective = Objective(Column(20.0), method)
    stacked = jax.tree.map(lambda leaf: leaf[None], objective)
    return Learner(objective, TableNetwork(jnp.zeros(5)), optax.sgd(0.1)), stacked


def batch_of(source):
    return weighed_batch(source, source.weight / source.weight.sum(), per_action=False)


def residuals(method, outputs):
    data = balanced() if method.anchored else balanced().with_absorbing_terminals(0.001)
    arguments = (*learner_of(method), jnp.float32(outputs)[None], batch_of(data.edges))
    return np.asarray(state_residuals(*arguments))[0]


@pytest.mark.parametrize("scaled", [False, True])
def test_drogo_at_the_column(scaled):
    """Neither the cap nor the ceiling of the training plays a part. With v(1) raised by 0.3, the
    flow out of state 1, which is left with probability 1/2, is less by a factor exp(-0.3)."""
    method, live = Drogo(cap=0.001, scaled=scaled), ~CHAIN.terminal
    assert np.abs(residuals(method, V_COLUMN)[live]).max() < 1e-6
    assert np.isnan(residuals(method, V_COLUMN)[~live]).all()
    raised = residuals(method, V_COLUMN + np.array([0.0, 0.3, 0, 0, 0]))[1]
    stays = np.exp(CHAIN.reward[1] / 20.0) / 2
    assert raised == pytest.approx((1 - stays) * (1 - np.exp(-0.3)), rel=1e-4)


def test_natural_gdo_at_the_right_eigenvector():
    """(R - P) e = mu e with mu = -b (mean e^2 - c): the norm is part of the equation."""
    solution = exact.solve(CHAIN.mdp, 20.0, "right")
    e = np.exp(solution.log_e)
    v = np.log(e * np.sqrt((TARGET - solution.eigenvalue / PENALTY) / (e**2).mean()))
    method = NaturalGDO(cap=np.inf, scaled=False, penalty=PENALTY, target_norm=TARGET)
    assert np.abs(residuals(method, v)).max() < 1e-5
    assert np.abs(residuals(method, v + 0.2)).max() > 0.05  # another norm


def gdo_matrix():
    """Sampled forwards, the quadratic form of GDO is that of R - P~ plus half the excess of
    arrivals over departures on the diagonal (proposition 3.2 needs doubly stochastic P)."""
    R, P = dense(CHAIN.mdp, 20.0)
    return R - (P + P.T) / 2 + np.diag((P.sum(axis=0) - 1) / 2)


@pytest.mark.parametrize("kind", [GDO, LogGDO])
def test_gdo_at_the_eigenvector_of_its_own_matrix(kind):
    """Its gradient is 2 (I + R - P~ + arrivals + 2 b (mean u^2 - c)) u: both factors of the penalty
    are differentiated."""
    values, vectors = np.linalg.eigh(gdo_matrix())
    u = np.abs(vectors[:, 0])
    u *= np.sqrt((TARGET - (1 + values[0]) / (2 * PENALTY)) / (u**2).mean())
    method, out = kind(penalty=PENALTY, target_norm=TARGET), u if kind is GDO else np.log(u)
    assert np.abs(residuals(method, out)).max() < 1e-4
    assert np.abs(residuals(method, out * 1.3)).max() > 0.02


@pytest.mark.parametrize(("kind", "step_size"), [(GDO, 0.003), (NaturalGDO, 0.01)])
def test_penalised_methods_find_their_own_vectors(kind, step_size):
    """`GDO` the smallest eigenvector of its own matrix, and `NaturalGDO` that of R - P and not of
    R - P~, because it samples P forwards. A short fit has not converged."""
    parts, optimiser = (balanced(), Column()), Optimiser(step_size=step_size)
    assert fit(*parts, kind(updates=100), optimiser=optimiser).status == ("max_updates",)
    solution = fit(*parts, kind(updates=20_000), optimiser=optimiser)
    assert kind is GDO or solution.status == ("converged",)
    right = exact.solve(CHAIN.mdp, 20.0, "right").checked().log_e
    truth = np.log(np.abs(np.linalg.eigh(gdo_matrix())[1][:, 0])) if kind is GDO else right
    assert np.abs(solution.v[0] - truth).max() < 0.02
    assert np.allclose(solution(np.arange(5)), solution.v, atol=1e-6)  # in the same scale
    assert np.logaddexp.reduce(2 * solution.v[0]) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(("rows", "mixed"), [([1.0, 1, 1, 1, -1], True), ([-1.0] * 5, False)])
def test_a_vector_of_two_signs_has_not_converged(rows, mixed):
    """The principal eigenvector has one sign, whichever it is. Two signs are no divergence."""
    network = Fixed(jnp.array(rows))
    solution = fit(balanced(), Column(), GDO(updates=1), network=network, optimiser=FROZEN)
    assert np.isinf(solution.history["worst"][-1, 0]) == mixed
    assert np.isfinite(solution.history["violation"]).all()
    assert solution.diverged_at == (None,)


def test_without_residuals_or_with_rare_costs_nothing_has_converged():
    """GDO on states that do not repeat has none."""
    solution = fit(line(), Column(), GDO(updates=3), network=SMALL)
    assert solution.status == ("max_updates",)
    assert np.isnan(solution.history["worst"]).all()
    # 99 % of the rewards are -1: groups are compared with their mean, not with the worst one.
    rare = np.random.default_rng(0).uniform(size=4000) < 0.01
    data = replace(line(4000), reward=np.where(rare, -100.0, -1.0))
    plan = make_plan(data, 100, second=False)
    assert data.terminated[plan.checked].any()  # terminal states are held out, too
    assert np.intersect1d(plan.checked, plan.trained).size == 0

    class Zero(eqx.Module):
        offset: jax.Array

        def __call__(self, batch):
            return 0 * batch[:, 0] + self.offset

    method = Drogo(updates=1, batch_size=100, action_values=False)
    solution = fit(data, Column(), method, network=Zero(jnp.zeros(())), optimiser=FROZEN)
    assert solution.status == ("max_updates",)


def test_transitions_groups_and_measures_by_hand():
    data, batch = balanced(), batch_of(balanced())
    outputs = [jnp.float32(V_COLUMN)[part][None] for part in (batch.state, batch.next_state)]
    parts = learner_of(Drogo(cap=np.inf, scaled=False))
    slopes, units = (np.asarray(x)[0] for x in transition_slopes(*parts, *outputs, batch))
    v, v_next = V_COLUMN[data.state], np.where(data.terminated, 0.0, V_COLUMN[data.next_state])
    assert np.allclose(slopes / units, 1 - np.exp(data.reward / 20.0 + v_next - v), atol=1e-5)
    assert np.allclose(units, np.exp(-data.reward / 20.0))
    none, _ = transition_slopes(*learner_of(GDO(penalty=1.0)), *outputs, batch)
    assert np.isnan(none).all()
    # 1000 transitions in two groups by value: means 0.2 and 0.6 in units of 2.
    value = np.repeat([1.0, 0.0], 500)[None]
    slopes = 2 * (np.repeat([0.3, 0.1], 500) + np.tile([0.1, -0.1], 500))[None]
    mean, error = in_groups(slopes, np.full((1, 1000), 2.0), value)
    assert mean == pytest.approx(np.array([[0.1, 0.3]]))
    assert error == pytest.approx(np.full((1, 2), 0.1 / np.sqrt(500)))
    truth = np.array([0.0, -3.0, -4.0])
    assert cosine(np.array([[0.0, -6.0, -8.0]]), truth)[0] == pytest.approx(1)
    shifted = np.array([[1.0, -5.0, -7.0]])  # 0, -6 and -8 above its value at the anchor
    assert np.array_equal(differences(shifted, truth, 0)[0], [0.0, 3.0, 4.0])
