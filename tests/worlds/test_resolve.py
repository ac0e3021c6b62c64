"""What a name on the command line stands for."""

import gymnasium
import pytest

import needs
from drogo.errors import ArgumentError, MDPError
from drogo.worlds.resolve import Environment, GridMap, MiniGrid, resolve

MAP = "#####\n#S.G#\n#####"


def test_a_shipped_world_and_its_ids():
    world = resolve("grid-task")
    assert isinstance(world, GridMap)
    assert (world.name, world.view, world.mdp.n_states) == ("grid-task", "coordinates", 104)
    assert "xxxx" in world.digest["map"]
    assert resolve("drogo/GridTask-v0").digest == world.digest
    assert resolve("grid-task", observation="state").make().observation_space.n == 104


def test_the_digest_of_a_map_is_that_of_its_content(tmp_path):
    path = tmp_path / "mine.txt"
    versions = [MAP, MAP.replace(".", "x"), f"reward .: -2\n\n{MAP}", f"step-limit: 9\n\n{MAP}"]
    digests = []
    for text in versions:
        path.write_text(text)
        digests.append(resolve(str(path)).digest)
    assert all(digests.count(digest) == 1 for digest in digests)


def test_a_tabular_environment_has_a_known_mdp():
    world = resolve("CliffWalking-v1", reward=-1.0)
    assert isinstance(world, Environment)
    assert world.known_mdp is not None
    assert world.known_mdp.n_states == 38
    assert world.sampling == {"start": "reset", "reward": -1.0, "key": None}
    assert world.digest["version"] == gymnasium.__version__
    assert world.digest["spec"]["entry_point"].startswith("gymnasium.envs.toy_text")
    unclear = resolve("CliffWalking-v1")
    assert unclear.known_mdp is None
    with pytest.raises(MDPError, match="not a function of the state"):
        _ = unclear.mdp


def test_a_control_problem_has_a_start_and_a_cost():
    world = resolve("MountainCar-v0")
    assert callable(world.sampling["start"])
    assert world.sampling["reward"] == -1
    assert world.known_mdp is None


def test_minigrid():
    needs.module("minigrid")
    world = resolve("MiniGrid-Empty-5x5-v0", layout=3, tile=2, reward=-2.0)
    assert isinstance(world, MiniGrid)
    expected = {"layout": 3, "observation": "rgb", "tile": 2, "step": -2.0, "lava": -200.0}
    assert expected.items() <= world.digest["arguments"].items()
    assert world.make().costs["step"] == -2
    assert world.known_mdp is world.mdp
    with pytest.raises(ArgumentError, match="Did you mean MiniGrid-Empty-5x5-v0"):
        resolve("MiniGrid-Emty-5x5-v0")


def test_several_keys_are_another_request():
    one, same, two, other = (
        resolve("CartPole-v1", key=key) for key in ("a+b", ["a+b"], ("a", "b"), ("b", "a"))
    )
    assert one.view == two.view == "a+b"
    assert one.digest == same.digest != two.digest != other.digest
    assert one.sampling["key"] == same.sampling["key"] == "a+b"
    assert two.sampling["key"] == ("a", "b")
    assert resolve("CartPole-v1", key=()).sampling["key"] is None


MODULE = """
import gymnasium

class Chain(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

gymnasium.register("Chain-v0", entry_point=Chain, kwargs={})
gymnasium.register("Broken-v0", entry_point="my_missing_module:Broken")
"""


def test_an_environment_of_ones_own_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    path = tmp_path / "my_chain.py"
    path.write_text(MODULE)
    world = resolve("my_chain:Chain-v0")
    assert world.name == "Chain-v0"
    assert world.digest["spec"]["entry_point"] == "my_chain:Chain"
    assert world.digest["version"] is None
    path.write_text(f"{MODULE}\n# another version\n")
    assert resolve("my_chain:Chain-v0").digest["source"] != world.digest["source"]
    with pytest.raises(ArgumentError, match="cannot be found"):
        resolve("Broken-v0")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("four-roms", {}, "Did you mean four-rooms"),
        ("CliffWalking-v7", {}, "Did you mean CliffWalking-v1"),
        ("drogo/GridWorld-v0", {}, "give the map's file instead"),
        ("no_such_module:Chain-v0", {}, "'no_such_module' of 'no_such_module:Chain-v0' cannot"),
        ("four-rooms", {"reward": -1.0}, "each symbol has its own reward"),
        ("four-rooms", {"observation": "symbolic"}, "is for MiniGrid environments"),
        ("CartPole-v1", {"observation": "pixels"}, "has its own observations"),
        ("MiniGrid-Empty-5x5-v0", {"observation": "one-hot"}, "is for grid worlds"),
        ("MiniGrid-Empty-5x5-v0", {"layout": -1}, "layout is -1"),
        (
            "four-rooms",
            {"layout": 0},
            "layout is the seed .* four-rooms is a text map. Leave layout=",
        ),
        ("drogo/FourRooms-v0", {"tile": 3}, "tile is the number of pixels .* is a text map"),
        ("four-rooms", {"key": "image"}, "key chooses parts of a Dict observation, and four-rooms"),
        ("CartPole-v1", {"layout": 1}, "MiniGrid environment's grid, and CartPole-v1 is not one"),
        ("CartPole-v1", {"tile": 3}, "MiniGrid environment, and CartPole-v1 is not one"),
        ("MiniGrid-Empty-5x5-v0", {"key": ["image"]}, "is observed as a whole. Leave key="),
        ("MiniGrid-Empty-5x5-v0", {"observation": "symbolic", "tile": 3}, "have no pixels"),
    ],
)
def test_mistakes(name, options, message):
    if name.startswith("MiniGrid"):
        needs.module("minigrid")
    with pytest.raises(ArgumentError, match=message):
        resolve(name, **options)


@pytest.mark.parametrize(
    ("name", "longest"),
    [("MountainCar-v0", 200), ("Acrobot-v1", 500), ("CliffWalking-v1", 1000)],
)
def test_an_agent_is_trained_with_a_time_limit(name, longest):
    world = resolve(name)
    env = world.make(limited=True)
    env.reset(seed=0)
    steps, cut, over = 0, False, False
    while not (cut or over):
        _, _, over, cut, _ = env.step(1 if name != "CliffWalking-v1" else 0)
        steps += 1
    assert (steps, cut) == (longest, True)
