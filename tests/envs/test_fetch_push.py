"""FetchPush: equality with gymnasium-robotics, the authors' geometry, rewards, goals, snapshots."""

import importlib.util
import os
import subprocess
import sys
import threading
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import geodesic as gd
from extras import WITH_MUJOCO, needs_mujoco
from geodesic import envs
from geodesic.curricula.gaussians import Gaussian
from geodesic.envs.gymnasium import put_context
from geodesic.tasks import catalogue, load

if WITH_MUJOCO:
    import mujoco

    from geodesic.envs import fetch_push
    from geodesic.envs.fetch_push import FetchPush
    from geodesic.envs.snapshots import set_simulator_state, simulator_state

    class Stock(FetchPush):
        """The stock table and base, where the box is farther away."""

        geometry = fetch_push.STOCK
        context_space = gd.ContextSpace([0.8, 0.4], [2.0, 1.1])


pytestmark = needs_mujoco
AHEAD = np.array([1.0, 0.0, 0.0, 0.0], np.float32)  # pushes the box


def actions(seed, n=50):
    """Random actions with a drift, so that the arm meets the box, the table and itself."""
    rng = np.random.default_rng(seed)
    return (rng.uniform(-1, 1, 4) + rng.normal(0, 0.5, (n, 4))).clip(-1, 1).astype(np.float32)


def play(env, moves):
    """Observations, rewards and truncations."""
    return [np.array([*obs, reward, truncated]) for obs, reward, _, truncated, _ in map(env.step, moves)]


@pytest.fixture(scope="module")
def env():
    made = FetchPush()
    yield made
    made.close()


@pytest.fixture(scope="module")
def stock():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import gymnasium_robotics
    gym.register_envs(gymnasium_robotics)
    return gym.make("FetchPush-v4").unwrapped


@pytest.mark.parametrize("seed", range(4))
def test_with_the_stock_geometry_it_is_gymnasium_robotics_bit_by_bit(stock, seed):
    """From the stock environment's start, box and goal; the observations differ by the rounding to float32."""
    ours = Stock(success_radius=0.05)
    stock.reset(seed=seed)
    ours.reset(seed=seed)
    state = ours.save_state()
    state["physics"], state["goal"] = simulator_state(stock.model, stock.data), stock.goal
    ours.restore_state(state)
    for action in actions(seed):
        theirs, reward, _, _, info = stock.step(action)
        obs, our_reward, terminated, _, our_info = ours.step(action)
        np.testing.assert_array_equal(ours._data.qpos, stock.data.qpos)
        np.testing.assert_array_equal(ours._data.qvel, stock.data.qvel)
        wanted = np.append(theirs["observation"], theirs["desired_goal"]).astype(np.float32)
        np.testing.assert_allclose(obs, wanted, rtol=2e-7, atol=1e-15)
        assert (our_reward, our_info["is_success"], terminated) == (reward, info["is_success"], False)


def test_the_stock_start_is_gymnasium_robotics(stock):
    """Its gripper, its box's height; that box lies anywhere within 0.15."""
    start = Stock().reset(seed=0)[0]
    theirs = stock.reset(seed=0)[0]["observation"]
    np.testing.assert_allclose(start[:3], theirs[:3], rtol=1e-7)
    assert start[5] == pytest.approx(theirs[5], abs=1e-7)
    assert start[3] - start[0] == pytest.approx(0.15, abs=1e-4)


def test_an_episode_starts_as_the_authors_does(env):
    obs, info = env.reset(seed=0, options={"context": [1.3, 0.5]})
    np.testing.assert_allclose(obs[:3], [0.991, 0.749, 0.414], atol=6e-4)
    np.testing.assert_allclose(obs[3:6], [1.141, 0.749, 0.425], atol=6e-4)
    np.testing.assert_allclose(env.box, obs[3:5], atol=1e-7)
    assert obs[27] == pytest.approx(obs[5], abs=1e-5)
    table = env._world.model.body("table0")
    np.testing.assert_array_equal(table.pos, [1.324, 0.75, 0.2])
    (geom,) = np.flatnonzero(env._world.model.geom_bodyid == table.id)
    np.testing.assert_array_equal(env._world.model.geom_size[geom], [0.625, 0.45, 0.2])
    np.testing.assert_array_equal(env._world.model.geom_friction[geom], [0.1, 0.005, 0.0001])
    assert info["stage"] == 0
    assert obs.dtype == np.float32


def test_the_tables_friction_has_no_effect(env):
    """MuJoCo takes the larger value of a contact, and the box has 1."""
    smooth = fetch_push.build(fetch_push.Geometry(friction=None))
    other = FetchPush()
    other._world = smooth
    other._attach(mujoco.MjData(smooth.model))
    for one in (env, other):
        one.reset(seed=0)
    np.testing.assert_array_equal(play(env, actions(3)), play(other, actions(3)))


def test_the_whole_context_space_lies_on_the_table(env):
    corners = [[x, y] for x in (0.8, 1.5) for y in (0.4, 1.1)]
    (x, y, _), (width, depth, _) = fetch_push.PAPER.table, fetch_push.PAPER.halves
    for corner in corners:
        assert abs(corner[0] - x) < width
        assert abs(corner[1] - y) < depth


@pytest.mark.parametrize("seed", range(3))
def test_excluding_contacts_changes_no_bit(env, monkeypatch, seed):
    monkeypatch.setattr(fetch_push, "EXCLUDED_CONTACTS", ())
    full = fetch_push.build.__wrapped__(fetch_push.PAPER)
    assert full.model.nexclude < env._world.model.nexclude
    other = FetchPush()
    other._world = full
    other._attach(mujoco.MjData(full.model))
    for one in (env, other):
        one.reset(seed=seed)
        play(one, actions(100 + seed))
    np.testing.assert_array_equal(env.save_state()["physics"], other.save_state()["physics"])


def test_excluded_contacts_occur_in_no_posture(monkeypatch):
    """In random postures within the joints' ranges, and a little beyond, they are at least a centimetre apart."""
    pairs = {frozenset((body, other)) for body, others in fetch_push.EXCLUDED_CONTACTS for other in others}
    monkeypatch.setattr(fetch_push, "EXCLUDED_CONTACTS", ())
    world = fetch_push.build.__wrapped__(fetch_push.PAPER)
    model, data, rng = world.model, mujoco.MjData(world.model), np.random.default_rng(0)
    model.geom_margin[:] = 0.01
    set_simulator_state(model, data, world.start)
    joints = [model.joint(index) for index in range(model.njnt) if model.joint(index).name.startswith("robot0:")][4:]
    names = [model.body(body).name for body in model.geom_bodyid]
    touched = set()
    for _ in range(3000):
        for joint in joints:
            low, high = joint.range if model.jnt_limited[joint.id] else (-np.pi, np.pi)
            data.qpos[joint.qposadr[0]] = rng.uniform(low - 0.02, high + 0.02)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        touched |= {frozenset((names[contact.geom1], names[contact.geom2])) for contact in data.contact}
    assert not touched & pairs
    assert frozenset(("robot0:head_pan_link", "robot0:upperarm_roll_link")) in touched


def test_a_box_pushed_to_its_goal_earns_zeros(env):
    """-1 until it is within the radius, then 0 and success; truncated after 50 steps, never terminated."""
    env.reset(seed=0, options={"context": [1.35, env.box[1]]})
    rewards, inside = [], []
    for step in range(50):
        obs, reward, terminated, truncated, info = env.step(AHEAD)
        rewards.append(reward)
        inside.append(np.linalg.norm(obs[3:6] - obs[25:28]) <= 0.15)
        assert info["is_success"] == inside[-1]
        assert (terminated, truncated) == (False, step == 49)
    np.testing.assert_array_equal(rewards, np.where(inside, 0.0, -1.0))
    assert rewards[0] == -1.0
    assert 0.0 in rewards


def test_the_radius_is_an_option():
    narrow, wide = FetchPush(success_radius=0.1, goal_noise=0.0), FetchPush(success_radius=0.2, goal_noise=0.0)
    earned = []
    for one in (narrow, wide):
        one.reset(seed=0, options={"context": [1.4, one.box[1]]})
        earned.append([one.step(AHEAD)[1] for _ in range(10)])
    assert sum(earned[0]) < sum(earned[1])
    assert np.hypot(*(narrow.source(np.random.default_rng(0)).points - narrow.box).T).min() > 0.1


def test_goals_are_contexts_with_noise(env):
    context = np.array([1.4, 0.6])
    goals = np.array([env.reset(seed=seed, options={"context": context})[0][25:27] for seed in range(400)])
    np.testing.assert_allclose(goals.mean(axis=0), context, atol=0.004)
    np.testing.assert_allclose(goals.std(axis=0), 0.02, atol=0.003)
    exact = FetchPush(goal_noise=0.0)
    np.testing.assert_allclose(exact.reset(options={"context": context})[0][25:27], context, rtol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("offset", [(0.0, 0.0), (0.05, -0.02), (-0.14, 0.0), (0.1, 0.1)])
def test_no_goal_is_reached_at_once(noise, offset):
    env = FetchPush(goal_noise=noise)
    for seed in range(20):
        env.reset(seed=seed, options={"context": env.box + offset})
        away = env.goal[:2] - env.box
        assert 0.15 < np.hypot(*away) < 0.3
        assert env.step(np.zeros(4))[1] == -1.0
    if noise == 0 and any(offset):  # moved straight away from the box, to just outside
        wanted = max(0.15015, np.hypot(*offset)) * np.array(offset) / np.hypot(*offset)
        np.testing.assert_allclose(away, wanted, rtol=1e-6, atol=1e-12)


def test_source_and_target_match_the_papers_fits(env):
    rng = np.random.default_rng(0)
    sources = np.concatenate([env.source(rng).points for _ in range(40)])
    away = np.abs(sources - env.box)
    assert away.max() <= 0.15
    assert np.hypot(*away.T).min() > 0.15
    mean, cov = env.source_moments
    np.testing.assert_allclose(sources.mean(axis=0), mean, atol=0.008)
    np.testing.assert_allclose(np.cov(sources.T), cov, atol=9e-4)
    target = env.target(rng)
    np.testing.assert_allclose(np.hypot(*(target.points - env.box).T), 0.3, rtol=1e-9)
    assert (target.points[:, 0] >= env.box[0] - 1e-9).all()
    mean, cov = env.target_moments
    np.testing.assert_allclose(target.mean(), mean, atol=0.006)
    np.testing.assert_allclose(target.cov(), cov, atol=0.001)
    arc = 0.3 * np.cos(np.linspace(-np.pi / 2, np.pi / 2, 100)).mean()  # from the mean of a half circle to its centre
    theirs = mean - [arc, 0.0]  # the box of the paper
    np.testing.assert_allclose(theirs, [1.14656, 0.74819], atol=1e-5)
    assert np.hypot(*(theirs - env.box)) == pytest.approx(0.006, abs=2e-4)


def test_the_papers_kl_threshold_is_never_exceeded():
    """It ends a lower bound on standard deviations, of which the paper's table has none."""
    source, target = (
        Gaussian.fit(*moments, np.full(2, 1e-6)) for moments in (FetchPush.source_moments, FetchPush.target_moments)
    )
    assert source.kl(target) == pytest.approx(2.296, abs=1e-3)
    options = load("fetch-push").training.methods["spdl"]
    assert options["kl_threshold"] == 20.0
    assert "std_lower_bound" not in options


def test_a_snapshot_continues_with_the_same_bits():
    """From the middle of an episode across its end, in another environment, whatever that one did before."""
    env, other = FetchPush(), FetchPush()
    env.reset(seed=5, options={"context": [1.3, 0.6]})
    play(env, actions(1, 23))
    arrays = {name: array.copy() for name, array in env.save_state().items()}
    assert all(array.dtype in (np.float64, np.int64, np.uint64) for array in arrays.values())
    other.reset(seed=99)
    play(other, actions(2, 9))
    other.restore_state(arrays)
    rest = actions(3, 27)
    np.testing.assert_array_equal(play(env, rest), play(other, rest))
    for one in (env, other):
        one.set_distribution(one.target(np.random.default_rng(1)), stage=2)
    first, second = env.reset(), other.reset()
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1]["context"], second[1]["context"])
    np.testing.assert_array_equal(play(env, rest), play(other, rest))


def test_the_state_of_another_environment_is_refused(env):
    env.reset(seed=0)
    with pytest.raises(gd.GeodesicError) as caught:
        env.restore_state({**env.save_state(), "physics": np.zeros(3)})
    assert str(caught.value) == "expected the state of a FetchPush environment, got physics of shape (3,)"


def test_environments_share_a_model_and_can_be_stepped_in_threads():
    one_by_one, at_once = ([FetchPush() for _ in range(4)] for _ in range(2))
    assert len({id(env._world.model) for env in one_by_one + at_once}) == 1
    for group in (one_by_one, at_once):
        for seed, env in enumerate(group):
            env.reset(seed=seed)
    alone = [play(env, actions(seed, 20)) for seed, env in enumerate(one_by_one)]
    found = {}

    def work(seed):
        found[seed] = play(at_once[seed], actions(seed, 20))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        np.testing.assert_array_equal(found[seed], alone[seed])


def test_gymnasium_finds_nothing_wrong():
    env = gym.make(envs.REGISTRY["fetch-push"].gym_id)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(infinity|without render_mode|render modes).*")
        check_env(env.unwrapped, skip_render_check=True)


def test_the_task_plots_the_box_and_sets_contexts():
    task = catalogue.load("fetch-push")
    assert task.least == -50.0
    assert task.plot.star == "box"
    env = task.make()
    assert env.observation_space.shape == (28,)
    obs, info = env.reset(seed=0, options={"context": [1.2, 1.0]})
    np.testing.assert_allclose(obs[25:27], [1.2, 1.0], atol=0.08)
    np.testing.assert_array_equal(info["context"], [1.2, 1.0])
    np.testing.assert_array_equal(env.unwrapped.context, [1.2, 1.0])
    exact = catalogue.load("fetch-push:goal_noise=0:success_radius=0.1")
    assert exact.make().unwrapped.success_radius == 0.1
    put_context(inner := exact.make().unwrapped, goal_x=0.9, goal_y=0.5)
    np.testing.assert_allclose(inner.reset(seed=1)[0][25:27], [0.9, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"success_radius": 0.3}, "expected success_radius between 0 and 0.212, got 0.3"),
        ({"success_radius": 0.0}, "expected success_radius between 0 and 0.212, got 0.0"),
        ({"goal_noise": -1.0}, "expected goal_noise to be non-negative, got -1.0"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(gd.GeodesicError) as caught:
        FetchPush(**options)
    assert str(caught.value) == message


@pytest.mark.parametrize("action", [np.zeros(3), np.full(4, np.nan)])
def test_an_invalid_action_is_refused(env, action):
    env.reset(seed=0)
    with pytest.raises(gd.GeodesicError, match="expected an action in Box"):
        env.step(action)


RENDER = """
import sys
import geodesic as gd
from geodesic import envs
from geodesic.curricula.gaussians import Gaussian
env = envs.make_gymnasium("fetch-push", render_mode="rgb_array")
env.reset(seed=0, options={"context": [1.3, 0.75]})
try:
    picture = env.render()
    green = (picture[..., 1].astype(int) - picture[..., 0] > 60) & (picture[..., 2] < 120)
    print("picture", picture.shape, picture.dtype, 300 < green.sum() < 20000)
except gd.GeodesicError as error:
    print(error)
env.close()
"""


def rendered(gl):
    """What a fresh process with this OpenGL prints."""
    environment = {**os.environ, "MUJOCO_GL": gl}
    done = subprocess.run([sys.executable, "-c", RENDER], capture_output=True, text=True, env=environment, check=False)
    return done.stdout.strip() or done.stderr


def test_it_renders_its_goal_if_opengl_is_available():
    said = rendered("egl")
    if not said.startswith("picture"):
        pytest.skip(f"no EGL on this machine: {said.splitlines()[-1]}")
    assert said == "picture (480, 480, 3) uint8 True"


def test_without_opengl_the_error_says_what_to_set():
    said = rendered("disabled")
    assert said.startswith("expected OpenGL for pictures, got ")
    assert said.endswith("try MUJOCO_GL=egl or MUJOCO_GL=osmesa for pictures, MUJOCO_GL=disabled without them")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "mujoco" else found(name, *rest)
    )
    with pytest.raises(gd.GeodesicError) as caught:
        fetch_push.simulator()
    assert str(caught.value) == "mujoco is not installed; try: pip install 'geodesic-rl[mujoco]'"
