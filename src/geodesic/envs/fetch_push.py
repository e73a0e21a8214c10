"""FetchPush: a robot arm pushes a box over a table to a goal; the context is the goal's position. Needs MuJoCo.

The robot, table and box are gymnasium-robotics' model, edited in memory and put into its initial state.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.checks import as_nonnegative, as_number
from geodesic.contexts import Arrays, ContextSpace, FloatArray, Moments, Particles, Plot
from geodesic.envs.gymnasium import ContextSampler, Info, as_render_mode
from geodesic.envs.snapshots import pack_generator, set_simulator_state, simulator_state, unpack_generator
from geodesic.errors import InvalidInput, MissingExtra, format_error

SUCCESS_RADIUS = 0.15
GOAL_NOISE = 0.02  # standard deviation
REDRAWS = 20  # of the noise, if it puts the goal too close to the box
HALF_WIDTH = 0.15  # of the source's square
ARC = 0.3  # radius of the target's half circle
MAX_MOVE = 0.05  # of the hand along an axis in one action
N_PARTICLES = 500
SIZE = 480  # of pictures

SUBSTEPS = 20  # of MuJoCo's 0.002 s in one action
REACH = (-0.498, 0.005, -0.431)  # from the robot's rest to the gripper's start, as in gymnasium-robotics
DOWN = np.array([1.0, 0.0, 1.0, 0.0])  # the gripper's orientation: fingers to the table
GL_HINT = "try MUJOCO_GL=egl or MUJOCO_GL=osmesa for pictures, MUJOCO_GL=disabled without them"
# Bodies that lie close to each other but touch in no posture within the joints' ranges (a test draws thousands).
# Leaving them out of collision detection saves time and changes no bit of a trajectory. A body, and the others.
EXCLUDED_CONTACTS = (
    ("robot0:base_link", ("robot0:shoulder_pan_link", "table0")),
    ("robot0:laser_link", ("table0",)),
    ("robot0:torso_fixed_link", ("robot0:head_pan_link", "robot0:shoulder_pan_link", "robot0:shoulder_lift_link")),
    ("robot0:head_pan_link", ("robot0:shoulder_pan_link", "robot0:shoulder_lift_link")),
    ("robot0:head_tilt_link", ("robot0:shoulder_pan_link", "robot0:shoulder_lift_link")),
)

Observation = NDArray[np.float32]


@dataclass(frozen=True)
class Geometry:
    """Where the authors' model and gymnasium-robotics' differ; the defaults are the authors'.

    Args:
        base: x of the robot's base.
        table: Centre of the table.
        halves: Half-sizes of the table.
        friction: The table's friction, None for MuJoCo's default. The authors' has no effect: MuJoCo takes the larger
            value of a contact, and the box has 1.
        ahead: Distance in x from the gripper to the box at the start.
    """

    base: float = 0.05
    table: tuple[float, float, float] = (1.324, 0.75, 0.2)
    halves: tuple[float, float, float] = (0.625, 0.45, 0.2)
    friction: tuple[float, float, float] | None = (0.1, 0.005, 0.0001)
    ahead: float = 0.15


PAPER = Geometry()
STOCK = Geometry(base=0.405, table=(1.3, 0.75, 0.2), halves=(0.25, 0.35, 0.2), friction=None)


@dataclass(frozen=True, eq=False)
class World:
    """A compiled model, shared by all environments of a process, and the state in which every episode starts.

    Args:
        mujoco: The module.
        model: The compiled model.
        start: The state at the start of an episode.
        height: z of the box at rest.
    """

    mujoco: Any
    model: Any
    start: FloatArray
    height: float


class FetchPush(ContextSampler, gym.Env[Observation, NDArray[np.float32]]):
    """A robot arm pushes a box to a goal; the context is the goal's (x, y).

    Observation: 25 values of gripper and box as in gymnasium-robotics, and the goal (x, y, z).

    An action moves the hand by up to 0.05 along each axis; its fourth value is gymnasium-robotics' for the gripper,
    which is blocked here. Reward -1 while the box is farther than the success radius from the goal, else 0. Episodes
    are truncated after 50 steps and never terminate.

    A goal is the context plus N(0, goal_noise^2) in x and y. A goal closer to the box than the success radius would be
    reached at once: its noise is drawn again up to 20 times, then the goal is moved straight away from the box, to just
    outside the radius. In the authors' code only methods with particles have this noise. Their box is at
    (1.14656, 0.74819), which the paper's Gaussian fits imply; ours is six millimetres away, where MuJoCo puts it today.

    MuJoCo is stepped directly: with the stock geometry trajectories equal gymnasium-robotics' bit by bit, in little
    more than half the time. All environments of a process share the model, and MuJoCo releases the interpreter lock, so
    threads can step several at once.

    Args:
        success_radius: Distance from the goal within which the box has reached it.
        goal_noise: Standard deviation of the goal around its context.
        render_mode: None or "rgb_array".

    Raises:
        InvalidInput: If an argument is invalid.
        MissingExtra: If MuJoCo or gymnasium-robotics is not installed.
    """

    metadata: Info = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012
    geometry: Geometry = PAPER
    max_steps = 50
    worst_return = -50.0
    context_space = ContextSpace([0.8, 0.4], [1.5, 1.1], names=("goal_x", "goal_y"))
    # The paper's fits to its source and target, for methods that use Gaussians.
    source_moments: Moments = (
        np.array([1.14655655, 0.74819359]),
        np.array([[0.0141083, 0.00055327], [0.00055327, 0.0149638]]),
    )
    target_moments: Moments = (np.array([1.33561676, 0.74819359]), np.diag([8.89519060e-03, 4.59090909e-02]))

    def __init__(
        self, success_radius: float = SUCCESS_RADIUS, goal_noise: float = GOAL_NOISE, render_mode: str | None = None
    ) -> None:
        self.render_mode = as_render_mode(render_mode)
        limit = math.sqrt(2) * HALF_WIDTH
        self.success_radius = as_number(success_radius, "success_radius")
        if not 0 < self.success_radius < limit:
            raise InvalidInput(f"expected success_radius between 0 and {limit:.3f}, got {success_radius}")
        self.goal_noise = as_nonnegative(goal_noise, "goal_noise")
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (28,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self._world = build(self.geometry)
        self._renderer: Any = None
        self._steps = 0
        self._goal = np.zeros(3)
        self._attach(self._world.mujoco.MjData(self._world.model))
        super().__init__(self.context_space, self.target(np.random.default_rng(0)))

    def _attach(self, data: Any) -> None:
        """Take views of the simulation's arrays once: looking them up costs as much as computing with them."""
        world, self._data = self._world, data
        grip, box, hand = data.site("robot0:grip"), data.site("object0"), data.body("robot0:gripper_link")
        self._sites = (grip.id, box.id)
        self._grip, self._box, self._box_rotation = grip.xpos, box.xpos, box.xmat
        self._hand, self._hand_turn = hand.xpos, hand.xquat
        self._mocap, self._mocap_turn = data.mocap_pos[0], data.mocap_quat[0]
        self._qpos_fingers, self._qvel_fingers = data.qpos[-9:-7], data.qvel[-8:-6]  # the last joints before the box
        self._dt = SUBSTEPS * world.model.opt.timestep
        self._velocities = np.zeros((2, 6))  # of gripper and box: angular, linear
        set_simulator_state(world.model, data, world.start)
        self.box: FloatArray = self._box[:2].copy()  # at the start of every episode

    @property
    def goal(self) -> FloatArray:
        """Position (3,) of the current goal."""
        return self._goal.copy()

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """Start an episode; `options={"context": c}` names its context."""
        super().reset(seed=seed)
        context = self.start_episode(options, self.np_random)
        set_simulator_state(self._world.model, self._data, self._world.start)
        self._steps = 0
        self._goal = np.array([*self._draw_goal(context), self._world.height])
        return self._observation(), self.episode_info()

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, Info]:
        """Move the hand; `info` has "is_success"."""
        move = np.asarray(action, np.float32)
        if move.shape != (4,) or math.isnan(sum(move.tolist())):
            raise InvalidInput(f"expected an action in {self.action_space}, got {action!r}")
        mujoco, model, data = self._world.mujoco, self._world.model, self._data
        # The mocap body moves to the hand's position plus the action, and the weld between them pulls the hand after
        # it. The sum of quaternions is gymnasium-robotics'.
        self._mocap[:] = self._hand
        self._mocap += np.minimum(np.maximum(move[:3], -1.0), 1.0) * MAX_MOVE
        self._mocap_turn[:] = self._hand_turn
        self._mocap_turn += DOWN
        mujoco.mj_step(model, data, nstep=SUBSTEPS)
        self._qpos_fingers[:] = 0.0
        mujoco.mj_forward(model, data)
        self._steps += 1
        distance = math.dist(self._box.tolist(), self._goal.tolist())
        info = {**self.episode_info(), "is_success": distance < self.success_radius}
        reward = -1.0 if distance > self.success_radius else 0.0
        return self._observation(), reward, False, self._steps >= self.max_steps, info

    def best_return(self, contexts: FloatArray) -> FloatArray:
        """Return 0 for every context."""
        return np.zeros(len(contexts))

    def source(self, rng: np.random.Generator) -> Particles:
        """Return particles uniform on the corners of a square around the box: off the disc of the success radius."""
        kept = np.empty((0, 2))
        while len(kept) < N_PARTICLES:
            drawn = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (4 * N_PARTICLES, 2))
            kept = np.concatenate([kept, drawn[np.hypot(*drawn.T) > self.success_radius]])
        return Particles(self.box + kept[:N_PARTICLES])

    def target(self, rng: np.random.Generator) -> Particles:
        """Return particles on a half circle around the box, on the side away from the robot.

        They are evenly spaced, as the paper's fit to its own shows of 100 points: no covariance between x and y, and a
        variance of 101 / 99 the circle's in y.
        """
        angle = np.linspace(-np.pi / 2, np.pi / 2, N_PARTICLES)
        return Particles(self.box + ARC * np.stack([np.cos(angle), np.sin(angle)], axis=1))

    def plot(self) -> Plot:
        """Describe how its contexts are drawn: with the box."""
        return Plot(goals=(tuple(self.box.tolist()),), star="box")

    def save_state(self) -> Arrays:
        """Return everything that decides the rest of the episode and the draws of later ones."""
        return {
            "physics": simulator_state(self._world.model, self._data),
            "goal": self._goal.copy(),
            "context": self.context.copy(),
            "counts": np.array([self._steps, self.episode_stage], np.int64),
            "random": pack_generator(self.np_random),
        }

    def restore_state(self, arrays: Arrays) -> None:
        """Continue the episode that `save_state` saved; the distribution of contexts is unchanged."""
        physics = np.array(arrays["physics"], np.float64)
        if physics.shape != self._world.start.shape:
            raise InvalidInput(f"expected the state of a FetchPush environment, got physics of shape {physics.shape}")
        set_simulator_state(self._world.model, self._data, physics)
        self._goal = np.array(arrays["goal"], np.float64)
        self.context = np.array(arrays["context"], np.float64)
        self._steps, self.episode_stage = (int(count) for count in arrays["counts"])
        unpack_generator(self.np_random, arrays["random"])

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """Return a picture of robot, table and box; a green disc on the table is the goal with its success radius."""
        if self.render_mode is None:
            gym.logger.warn("render() without render_mode; try gym.make(..., render_mode='rgb_array')")
            return None
        mujoco = self._world.mujoco
        if self._renderer is None:
            self._renderer = self._new_renderer()
        camera, option = mujoco.MjvCamera(), mujoco.MjvOption()
        camera.distance, camera.azimuth, camera.elevation = 2.5, 132.0, -14.0
        camera.lookat[:] = 1.3, 0.75, 0.55
        option.sitegroup[:] = 0
        self._renderer.update_scene(self._data, camera, option)
        scene = self._renderer.scene
        top = self._goal - (0.0, 0.0, 0.024)  # the box's half side, less a little so that the table does not hide it
        disc = np.array([self.success_radius, 0.001, 0.0])  # radius and half height
        colour = np.array([0.1, 0.7, 0.2, 0.5], np.float32)
        marker = mujoco.mjtGeom.mjGEOM_CYLINDER
        mujoco.mjv_initGeom(scene.geoms[scene.ngeom], marker, disc, top, np.eye(3).ravel(), colour)
        scene.ngeom += 1
        picture: NDArray[np.uint8] = self._renderer.render()
        return picture

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _new_renderer(self) -> Any:
        try:
            self._world.mujoco.GLContext(SIZE, SIZE).free()  # else a Renderer that fails raises again when it is freed
            return self._world.mujoco.Renderer(self._world.model, SIZE, SIZE)
        except Exception as error:
            raise InvalidInput(f"expected OpenGL for pictures, got {format_error(error, 120)}; {GL_HINT}") from error

    def _draw_goal(self, context: FloatArray) -> FloatArray:
        """The goal's (x, y)."""
        for _ in range(REDRAWS if self.goal_noise > 0 else 1):
            goal = context + self.goal_noise * self.np_random.standard_normal(2)
            if math.dist(goal, self.box) > self.success_radius:
                return goal
        away = context - self.box
        away = away / np.hypot(*away) if away.any() else np.array([1.0, 0.0])
        return self.box + 1.001 * self.success_radius * away

    def _observation(self) -> Observation:
        mujoco, model, (of_grip, of_box) = self._world.mujoco, self._world.model, self._velocities
        for site, velocity in zip(self._sites, self._velocities):
            mujoco.mj_objectVelocity(model, self._data, mujoco.mjtObj.mjOBJ_SITE, site, velocity, 0)
        angles = euler(self._box_rotation)
        positions = (self._grip, self._box, self._box - self._grip, self._qpos_fingers, angles)
        speeds = (of_box[3:] - of_grip[3:], of_box[:3], of_grip[3:], self._qvel_fingers)
        return np.concatenate([*positions, self._dt * np.concatenate(speeds), self._goal]).astype(np.float32)


def simulator() -> Any:
    """Import MuJoCo, or raise an error that says how to get it."""
    for package in ("mujoco", "gymnasium_robotics"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package.replace("_", "-"), "mujoco")
    try:
        import mujoco
    except Exception as error:  # with MUJOCO_GL set to a library that is missing, the import itself fails
        raise InvalidInput(f"cannot import mujoco: {format_error(error)}; {GL_HINT}") from error
    return mujoco


@cache
def build(geometry: Geometry) -> World:
    """Compile the world of this geometry, once per process."""
    mujoco = simulator()
    package: Any = importlib.util.find_spec("gymnasium_robotics")  # importing it would register and print
    spec = mujoco.MjSpec.from_file(str(Path(package.origin).with_name("envs") / "assets" / "fetch" / "push.xml"))
    table = spec.body("table0")
    table.pos = geometry.table
    table.geoms[0].size = geometry.halves
    if geometry.friction is not None:
        table.geoms[0].friction = geometry.friction
    for body, others in EXCLUDED_CONTACTS:
        for other in others:
            spec.add_exclude(bodyname1=body, bodyname2=other)
    model = spec.compile()
    welds = model.eq_type == mujoco.mjtEq.mjEQ_WELD
    model.eq_data[welds, :7] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)  # the hand onto the mocap, without an offset
    return World(mujoco, model, *start_simulation(mujoco, model, geometry))


def start_simulation(mujoco: Any, model: Any, geometry: Geometry) -> tuple[FloatArray, float]:
    """Return the state at the start of an episode, and the box's height, as gymnasium-robotics reaches them.

    The hand is pulled into position for ten steps while the box comes to rest on the table. Episodes start with that
    posture, the box moved in front of the gripper, and everything else as MuJoCo resets it.
    """
    data = mujoco.MjData(model)
    for joint, value in (("slide0", geometry.base), ("slide1", 0.48), ("slide2", 0.0)):
        data.joint(f"robot0:{joint}").qpos[0] = value
    data.joint("object0:joint").qpos[:] = (1.25, 0.53, 0.4, 1.0, 0.0, 0.0, 0.0)
    mujoco.mj_forward(model, data)
    data.mocap_pos[0] = np.array(REACH) + data.site("robot0:grip").xpos
    data.mocap_quat[0] = DOWN
    for _ in range(10):
        mujoco.mj_step(model, data, nstep=SUBSTEPS)
    gripper, height = data.site("robot0:grip").xpos.copy(), float(data.site("object0").xpos[2])
    time, posture, speeds = data.time, data.qpos.copy(), data.qvel.copy()
    mujoco.mj_resetData(model, data)
    data.time, data.qpos[:], data.qvel[:] = time, posture, speeds
    data.joint("object0:joint").qpos[:2] = gripper[0] + geometry.ahead, gripper[1]
    mujoco.mj_forward(model, data)
    return simulator_state(model, data), height


def euler(matrix: FloatArray) -> tuple[float, float, float]:
    """Return the angles of a rotation matrix (9,) in gymnasium-robotics' convention."""
    a, b, c, d, e, f, _, _, i = matrix.tolist()
    across = math.hypot(i, f)
    if across > 4 * np.finfo(np.float64).eps:
        return -math.atan2(f, i), -math.atan2(-c, across), -math.atan2(b, a)
    return 0.0, -math.atan2(-c, across), -math.atan2(-d, e)
