"""Worlds by the names that the command line gives."""

import gymnasium
import numpy as np
import pytest

import needs
from drogo import collect
from drogo.errors import ArgumentError, MDPError
from drogo.mdp import Costs
from drogo.problems.worse_ends import notes_of, suitable_lam
from drogo.worlds.grid import COLOURS
from drogo.worlds.minigrid import NotSearchable
from drogo.worlds.resolve import Environment, GridMap, MiniGrid, resolve
from raising import raises, refused

MAP = "#####\n#S.G#\n#####"
TRAP = "goal L: -6\n\n########\n#S.L..G#\n########"
MODULE = """
import gymnasium

class Chain(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

gymnasium.register("Chain-v0", entry_point=Chain, kwargs={})
gymnasium.register("Broken-v0", entry_point="my_missing_module:Broken")
"""
WRONG = {
    "four-rooms": [{"reward": -1.0}, {"observation": "symbolic"}, {"layout": 0}, {"key": "image"}],
    "drogo/FourRooms-v0": [{"tile": 3}],
    "CartPole-v1": [{"observation": "pixels"}, {"layout": 1}, {"tile": 3}],
    "MiniGrid-Empty-5x5-v0": [{"observation": "one-hot"}, {"layout": -1}, {"key": ["image"]}],
}
LIMITS = [("MountainCar-v0", 200), ("Acrobot-v1", 500), ("CliffWalking-v1", 1000)]


def test_maps_their_ids_and_digests(tmp_path):
    world = resolve("grid-task")
    assert isinstance(world, GridMap)
    assert (world.name, world.view, world.mdp.n_states) == ("grid-task", "coordinates", 104)
    assert "xxxx" in world.digest["map"]
    assert resolve("drogo/GridTask-v0").digest == world.digest
    assert resolve("grid-task", observation="state").make().observation_space.n == 104
    path, digests = tmp_path / "mine.txt", set()
    for text in (MAP, MAP.replace(".", "x"), f"reward .: -2\n\n{MAP}", f"step-limit: 9\n\n{MAP}"):
        path.write_text(text)
        digests.add(str(resolve(str(path)).digest))
    assert len(digests) == 4


def test_environments_of_gymnasium_and_their_keys():
    world = resolve("CliffWalking-v1", reward=-1.0)
    assert isinstance(world, Environment)
    assert world.known_mdp is not None
    assert world.known_mdp.n_states == 38
    assert world.state_names[0] == "state 36"  # the start, which is found first
    assert world.lattice == (4, 12)
    assert world.sampling == {"start": "reset", "reward": -1.0, "key": None}
    assert world.digest["version"] == gymnasium.__version__
    assert world.digest["spec"]["entry_point"].startswith("gymnasium.envs.toy_text")
    unclear, car = resolve("CliffWalking-v1"), resolve("MountainCar-v0")
    assert unclear.known_mdp is car.known_mdp is None
    refused(MDPError, None, lambda: unclear.mdp)
    assert callable(car.sampling["start"])
    assert car.sampling["reward"] == -1
    keys = ("a+b", ["a+b"], ("a", "b"), ("b", "a"))
    one, same, two, other = (resolve("CartPole-v1", key=key) for key in keys)
    assert one.view == two.view == "a+b"
    assert one.digest == same.digest != two.digest != other.digest
    assert one.sampling["key"] == same.sampling["key"] == "a+b"
    assert two.sampling["key"] == ("a", "b")
    assert resolve("CartPole-v1", key=()).sampling["key"] is None
    lake = resolve("FrozenLake-v1", terminal_reward=-3.0)
    assert set(collect(lake.env, 50, seed=0, **lake.sampling).terminal_rewards) == {-3.0}
    assert lake.known_mdp is None  # it has the lake's own ends
    # A hole of the lake is as bad as the longest episode that was seen, of any length.
    states, costs = np.array([5, 15]), Costs(step=1.0, best=1.0, worth=60.0)
    truth = resolve("FrozenLake-v1").truth(states, states, 20.0, costs)
    assert truth["column"] == pytest.approx([-3.0, 0.0])
    refused(ArgumentError, "terminal_reward", resolve, "grid-task", terminal_reward=-3.0)


def test_a_map_that_leads_into_the_worse_end(tmp_path):
    """No way leads around L in the first world; in the second one a longer way does."""
    (path := tmp_path / "trap.txt").write_text(TRAP)
    world = resolve(str(path))
    assert notes_of(world.mdp.edges, 20.0) == []
    path.write_text("goal L: -60\n\n##########\n#S.......#\n#LLLLLLL.#\n#.......G#\n##########")
    edges = resolve(str(path)).mdp.edges
    (note,) = notes_of(edges, 40.0)
    lam = suitable_lam(edges, 40.0)
    assert f"lam = {lam:g}, it does not" in note
    assert (notes_of(edges, lam), len(notes_of(edges, 2 * lam))) == ([], 1)
    assert (world.grid.picture()[1, 3] == np.float32(COLOURS["low reward"])).all()
    assert world.grid.worse_ends.tolist() == [False, False, True, False, False, False]


def test_minigrid():
    needs.module("minigrid")
    world = resolve("MiniGrid-Empty-5x5-v0", layout=3, tile=2, reward=-2.0)
    assert isinstance(world, MiniGrid)
    expected = {"layout": 3, "observation": "rgb", "tile": 2, "step": -2.0, "lava": -200.0}
    assert expected.items() <= world.digest["arguments"].items()
    assert world.make().costs["step"] == -2
    few = resolve("MiniGrid-Empty-5x5-v0", actions=("forward", "left"))
    assert few.make().actions == ("forward", "left")
    assert world.known_mdp is world.mdp
    refused(ArgumentError, "name", resolve, "MiniGrid-Emty-5x5-v0")
    # Balls that move at random begin each episode in the same places, and go on in other ones.
    moving = resolve("MiniGrid-Dynamic-Obstacles-5x5-v0", layout=1)
    firsts, seconds = set(), set()
    for _ in range(20):
        firsts.add(moving.env.reset()[0].tobytes())
        seconds.add(moving.env.step(0)[0].tobytes())
    assert len(firsts) == 1 < len(seconds)
    assert (moving.known_mdp, moving.scenes, moving.sampling["start"]) == (None, (), "reset")
    with raises(NotSearchable, "env"):  # at once, in place of another search
        _ = moving.mdp
    options = {"actions": ("forward",)}
    refused(NotSearchable, "env", resolve, "MiniGrid-Dynamic-Obstacles-5x5-v0", **options)


def test_an_environment_of_another_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    path = tmp_path / "my_chain.py"
    path.write_text(MODULE)
    world = resolve("my_chain:Chain-v0")
    assert (world.name, world.digest["spec"]["entry_point"]) == ("Chain-v0", "my_chain:Chain")
    assert world.digest["version"] is None
    path.write_text(f"{MODULE}\n# another version\n")
    assert resolve("my_chain:Chain-v0").digest["source"] != world.digest["source"]
    refused(ArgumentError, None, resolve, "Broken-v0")


def test_names_that_stand_for_no_world():
    hints = {"four-roms": "four-rooms", "CliffWalking-v7": "CliffWalking-v1"}
    for name in (*hints, "drogo/GridWorld-v0", "no_such_module:Chain-v0"):
        assert hints.get(name, "") in str(refused(ArgumentError, "name", resolve, name))


@pytest.mark.parametrize("name", WRONG)
def test_options_that_do_not_apply(name):
    if name.startswith("MiniGrid"):
        needs.module("minigrid")
        refused(ArgumentError, "tile", resolve, name, observation="symbolic", tile=3)
    for options in WRONG[name]:
        refused(ArgumentError, *options, resolve, name, **options)


@pytest.mark.parametrize(("name", "longest"), LIMITS)
def test_an_agent_is_trained_with_a_time_limit(name, longest):
    env = resolve(name).make(limited=True)
    env.reset(seed=0)
    flags = [env.step(int(name != "CliffWalking-v1"))[2:4] for _ in range(longest)]
    assert flags == [(False, False)] * (longest - 1) + [(False, True)]
