"""Potentials in PyTorch, ONNX and torchrl, and under agents of SBX: each with the real peer."""

import json
import subprocess
import sys
from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest

import drogo
import needs
from drogo import GDO, Column, Drogo, OnlineTable, Potential, Spectrum, fit
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.learn import CNN, MLP, PairMLP, Table
from raising import refused
from small_data import WORLD, Fixed, data_of, ring, world_env
from small_world import make

SMALL, FEW = MLP(width=16, depth=2, leak=0.1), {"updates": 20, "stop_early": False}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
PLACES = make().unwrapped.all_observations()


class Bytes(gymnasium.ObservationWrapper):
    def __init__(self):
        super().__init__(world_env(WORLD, "pixels"))
        shape = self.observation_space.shape
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)

    def observation(self, observation):
        return (255 * (observation + 0.5)).astype(np.uint8)


def fitted(kind, method=None, network=SMALL, problem=None, exactly=False, **options):
    data = drogo.collect(Bytes(), 1000, seed=0) if kind == "bytes" else data_of(WORLD, kind)
    parts, method = (data, problem or Column()), Drogo(**FEW) if method is None else method
    solution = drogo.solve(*parts) if exactly else fit(*parts, method, network=network)
    return data, solution.potential(**options)


def without_an_action():
    """One of four actions never occurs: its logit is far below the others'."""
    data = data_of(WORLD, "coordinates")
    data = replace(data[data.action != 3], n_actions=4)
    return data, fit(data, Column(), Drogo(**FEW, action_values=True), network=SMALL).potential()


CASES = {
    "fourier": lambda: fitted("coordinates"),
    "actions": lambda: fitted("one-hot", Drogo(**FEW, action_values=True)),
    "absent": without_an_action,
    "floats": lambda: fitted("pixels"),
    "entries": lambda: fitted("coordinates", GDO(**FEW)),
    "pixels": lambda: fitted("bytes"),
    "images": lambda: fitted("bytes", network=CNN(width=16)),
    "discounted": lambda: fitted("coordinates", goal_reward=2.0, discount=0.9),
    "divided": lambda: fitted("coordinates", normalised=False),
    "spectrum": lambda: fitted("coordinates", drogo.ALLO(**FEW), problem=Spectrum(3), vector=1),
    "states of a network": lambda: fitted("state", network=Table()),
    "states without an end": lambda: (ring()[0], fit(ring()[0], drogo.Continuing()).potential()),
    "table of bytes": lambda: fitted("bytes", exactly=True),
}


@pytest.mark.parametrize("case", CASES)
def test_a_potential_is_the_same_in_torch_and_in_onnx(case, tmp_path):
    torch, (data, phi), rng = needs.module("torch"), CASES[case](), np.random.default_rng(0)
    phi = phi.normalised(data) if case == "divided" else phi
    module, table = phi.to_torch(), data.observations
    other = rng.random(table.shape) * (255 if table.dtype.kind in "iu" else 1)
    batches = [table, *([] if " " in case else [other.astype(table.dtype)])]
    for batch in batches:
        values, shown = module(torch.tensor(batch)), torch.tensor(batch)
        assert (values.dtype, module(shown[0]).shape) == (torch.float32, ())
        np.testing.assert_allclose(values, phi(batch), **CLOSE)
        np.testing.assert_allclose(module(torch.stack([shown] * 2)), [phi(batch)] * 2, **CLOSE)
    assert module(shown[:0]).shape == (0,)
    if case == "table of bytes":
        assert module(torch.tensor(other.astype(table.dtype))).isnan().all()
        for wrong in (shown.float(), shown.movedim(-1, 1)):
            with pytest.raises(AssertionError):
                module(wrong)
    needs.module("onnx")
    phi.to_onnx(tmp_path / "phi.onnx")
    session = needs.module("onnxruntime").InferenceSession(tmp_path / "phi.onnx")
    for batch in batches:
        (values,) = session.run(["potential"], {"observations": batch})
        assert values.dtype == np.float32
        np.testing.assert_allclose(values, phi(batch), **CLOSE)


def test_a_saved_module_needs_neither_jax_nor_drogo(tmp_path):
    torch, (data, phi) = needs.module("torch"), CASES["fourier"]()
    torch.save(phi.to_torch(), tmp_path / "phi.pt")
    code = "import sys, torch\nmodule = torch.load(sys.argv[1], weights_only=False)\n"
    code += f"print(module(torch.tensor({data.observations.tolist()})).tolist())\n"
    code += "assert not {'jax', 'drogo'} & set(sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / "phi.pt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(done.stdout), phi(data.observations), **CLOSE)


def test_what_cannot_be_translated_is_an_error():
    _, own = fitted("state", network=Fixed(jax.numpy.zeros(WORLD.n_states)))
    data = data_of(WORLD, "coordinates")
    goals = fit(data, drogo.Goals(), network=PairMLP(width=16)).potential(goal=data.observations[3])
    near = Potential.from_states(np.array([[1.0, 1e-30], [1.0, 2e-30]]), np.zeros(2))
    for phi, name in ((own, "network"), (goals, "potential"), (near, "observations")):
        refused(ArgumentError, name, phi.to_torch)
    refused(ArgumentError, "potential", Potential(len).to_torch)


def test_recorded_rewards_are_shaped():
    """The second step ends the task, and the third one the episode alone."""
    phi = Potential.from_states(np.arange(4), np.array([0.0, 2.0, 5.0, 7.0]), discount=0.5)
    names = ("rewards", "observations", "next_observations", "terminated")
    steps = ([[-1], [-2], [3]], [0, 1, 2], [1, 2, 3], [[False], [True], [False]])
    by_hand = [[-1 + 0.5 * 2 - 0], [-2 + 0 - 2], [3 + 0.5 * 7 - 5]]
    assert phi.shaped(*steps, discount=0.5).tolist() == by_hand
    mixed = phi.shaped(*steps, discount=0.5, weight=0.25, terminal="keep")
    assert mixed.ravel().tolist() == [-0.75 + 0.25, -1.5 + 0.25 * (2.5 - 2), 2.25 - 0.25 * 1.5]
    good = {**dict(zip(names, steps, strict=True)), "discount": 0.5}
    wrong = {"rewards": [1, 2, np.nan], "observations": [0, 1], "terminated": [0, 1, 2],
             "discount": 0.9, "weight": 2.0, "terminal": "none"}  # fmt: skip
    for name, value in wrong.items():
        with pytest.raises(drogo.DrogoError) as caught:
            phi.shaped(**{**good, name: value})
        assert caught.value.argument == name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torchrl itself
@pytest.mark.parametrize("terminal", ["zero", "keep"])
def test_a_transform_of_torchrl_shapes_steps_and_samples(terminal):
    needs.module("torchrl")
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    from torchrl.envs import GymWrapper, TransformedEnv
    from torchrl.envs.utils import check_env_specs

    from drogo.integrations.torchrl import PotentialTransform

    phi = Potential.from_states(PLACES, np.linspace(-3, -1, len(PLACES)))
    rule = {"discount": 0.9, "weight": 0.5, "terminal": terminal}
    env = TransformedEnv(GymWrapper(make()), PotentialTransform(phi, **rule))
    check_env_specs(env)
    env.set_seed(0)
    steps = env.rollout(300, break_when_any_done=False)
    after = steps["next"]
    columns = (after["reward"], steps["observation"], after["observation"], after["terminated"])
    assert after["terminated"].any()
    np.testing.assert_allclose(after["shaped_reward"], phi.shaped(*columns, **rule), **CLOSE)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(300), batch_size=64)
    buffer.append_transform(PotentialTransform(phi, out_keys=["reward"], **rule)).extend(steps)
    for sample in (buffer.sample()["next"], buffer.sample()["next"]):  # the storage stays
        np.testing.assert_array_equal(sample["reward"], sample["shaped_reward"])
    refused(ArgumentTypeError, "potential", PotentialTransform, len)
    for name, value in (("in_keys", ["observation"]), ("out_keys", "reward"), ("discount", 2.0)):
        refused(ArgumentError, name, PotentialTransform, phi, **{name: value})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of SBX itself
@pytest.mark.parametrize("algorithm", ["DQN", "PPO"])
def test_a_map_shapes_the_rewards_of_agents_of_sbx(algorithm):
    sbx, env = needs.module("sbx"), make()
    from drogo.integrations.sb3 import LearnMap

    online = OnlineTable(env.observation_space, env.action_space, every=10)
    settings = (
        {"learning_starts": 50, "buffer_size": 400} if algorithm == "DQN" else {"n_steps": 64}
    )
    agent = getattr(sbx, algorithm)("MlpPolicy", env, seed=0, batch_size=16, **settings)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        agent.learn(384, callback=LearnMap(online))
    assert (online.steps, online.found) == (384, True)
    if algorithm == "PPO":  # whose returns follow from the shaped rewards
        return
    sample, phi = agent.replay_buffer.sample(64), online.potential
    before, after = sample.observations.numpy(), sample.next_observations.numpy()
    shaping = 0.99 * np.where(sample.dones.numpy()[:, 0] > 0, 0.0, phi(after)) - phi(before)
    assert np.isin((2 * sample.rewards.numpy()[:, 0] - shaping).round(3), [-1.0, -20.0]).all()
