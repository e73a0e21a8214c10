"""FetchPush: a robot arm pushes a box over a table to a goal; the context is the goal's place. Needs MuJoCo."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodesic.contexts import Arrays, ContextSpace, FloatArray, Particles, as_number
from geodesic.envs.fetch_model import DOWN, GL_HINT, PAPER, SUBSTEPS, Geometry, build, euler
from geodesic.envs.gymnasium import ContextDraws, Contextual, Info
from geodesic.errors import InvalidInput, told

SUCCESS_RADIUS = 0.15
GOAL_NOISE = 0.02  # standard deviation
REDRAWS = 20  # of the noise, where it puts the goal too close to the box
HALF_WIDTH = 0.15  # of the source's square
ARC = 0.3  # radius of the target's half circle
STRIDE = 0.05  # the most that one action moves the hand along an axis
N_PARTICLES = 500
SIZE = 480  # of pictures

Moments = tuple[FloatArray, FloatArray]  # mean (d,), covariance (d, d)
Observation = NDArray[np.float32]


class FetchPush(Contextual, gym.Env[Observation, NDArray[np.float32]]):
    """Observation: 25 values of gripper and box as in gymnasium-robotics, and the goal (x, y, z). Context: its (x, y).

    An action moves the hand by up to 0.05 along each axis; its fourth value is gymnasium-robotics' for the gripper,
    which is blocked here. Reward -1 while the box is farther than the success radius from the goal, else 0; an episode
    is cut after 50 steps and never ends before.

    A goal is the context plus N(0, goal_noise²) in x and y. One closer to the box than the success radius would be
    reached at once: its noise is drawn again up to 20 times, then it is moved straight away from the box, to just
    outside the radius.

    The model is gymnasium-robotics', edited in memory to the authors' (`fetch_model.Geometry`), and MuJoCo is stepped
    directly: with the stock geometry trajectories are the stock environment's bit by bit, in little more than half its
    time. All environments of a process share the model, and MuJoCo releases the interpreter lock, so that many can be
    stepped in threads.
    """

    metadata: Info = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012
    geometry: Geometry = PAPER
    max_steps = 50
    worst_return = -50.0
    context_space = ContextSpace([0.8, 0.4], [1.5, 1.1], names=("goal_x", "goal_y"))
    # The paper's fits to its source and target, for methods that know Gaussians only.
    source_moments: Moments = (
        np.array([1.14655655, 0.74819359]),
        np.array([[0.0141083, 0.00055327], [0.00055327, 0.0149638]]),
    )
    target_moments: Moments = (np.array([1.33561676, 0.74819359]), np.diag([8.89519060e-03, 4.59090909e-02]))

    def __init__(
        self,
        success_radius: float = SUCCESS_RADIUS,
        goal_noise: float = GOAL_NOISE,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidInput(f"expected render_mode None or 'rgb_array', got {render_mode!r}")
        limit = math.sqrt(2) * HALF_WIDTH
        self.success_radius = as_number(success_radius, "success_radius")
        if not 0 < self.success_radius < limit:
            raise InvalidInput(f"expected success_radius between 0 and {limit:.3f}, got {success_radius}")
        self.goal_noise = as_number(goal_noise, "goal_noise")
        if not self.goal_noise >= 0:
            raise InvalidInput(f"expected goal_noise of at least 0, got {goal_noise}")
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (28,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self._world = build(self.geometry)
        self._renderer: Any = None
        self._steps = 0
        self._goal = np.zeros(3)
        self._attach(self._world.mujoco.MjData(self._world.model))
        self.draws = ContextDraws(self.context_space, self.target(np.random.default_rng(0)))

    def _attach(self, data: Any) -> None:
        """Views into the simulation's arrays, taken once: looking them up costs as much as computing with them."""
        world, self._data = self._world, data
        self._qpos_fingers, self._qvel_fingers = data.qpos[world.fingers], data.qvel[world.finger_speeds]
        self._grip, self._box = data.site_xpos[world.grip], data.site_xpos[world.box]
        self._box_rotation = data.site_xmat[world.box]
        self._hand, self._hand_turn = data.xpos[world.hand], data.xquat[world.hand]
        self._mocap, self._mocap_turn = data.mocap_pos[0], data.mocap_quat[0]
        self._dt = SUBSTEPS * world.model.opt.timestep
        self._velocities = np.zeros((2, 6))  # of gripper and box: turning, moving
        self._turn = np.array(DOWN)
        world.put(data, world.start)
        self.box: FloatArray = self._box[:2].copy()  # where every episode finds it

    @property
    def goal(self) -> FloatArray:
        return self._goal.copy()

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        super().reset(seed=seed)
        context = self.draws.begin(options, self.np_random)
        self._world.put(self._data, self._world.start)
        self._steps = 0
        self._goal = np.array([*self._place(context), self._world.height])
        return self._observation(), self.draws.info()

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, Info]:
        move = np.asarray(action, np.float32)
        if move.shape != (4,) or math.isnan(sum(move.tolist())):
            raise InvalidInput(f"expected an action in {self.action_space}, got {action!r}")
        mujoco, model, data = self._world.mujoco, self._world.model, self._data
        # The mocap body goes where the hand is, plus the action; the weld between them pulls the hand after it. The
        # sum of quaternions is gymnasium-robotics'.
        self._mocap[:] = self._hand
        self._mocap += np.minimum(np.maximum(move[:3], -1.0), 1.0) * STRIDE
        self._mocap_turn[:] = self._hand_turn
        self._mocap_turn += self._turn
        mujoco.mj_step(model, data, nstep=SUBSTEPS)
        self._qpos_fingers[:] = 0.0
        mujoco.mj_forward(model, data)
        self._steps += 1
        distance = math.dist(self._box.tolist(), self._goal.tolist())
        info = {**self.draws.info(), "is_success": distance < self.success_radius}
        reward = -1.0 if distance > self.success_radius else 0.0
        return self._observation(), reward, False, self._steps >= self.max_steps, info

    def best_return(self, contexts: FloatArray) -> FloatArray:
        return np.zeros(len(contexts))

    def source(self, rng: np.random.Generator) -> Particles:
        """Uniform on a square around the box without the disc of the success radius: its four corners."""
        kept = np.empty((0, 2))
        while len(kept) < N_PARTICLES:
            drawn = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (4 * N_PARTICLES, 2))
            kept = np.concatenate([kept, drawn[np.hypot(*drawn.T) > self.success_radius]])
        return Particles(self.box + kept[:N_PARTICLES])

    def target(self, rng: np.random.Generator) -> Particles:
        """Uniform on a half circle around the box, on the side away from the robot: evenly spaced, as the paper's fit
        to its own (no covariance between x and y, and a variance of 101 / 99 the circle's in y) shows of 100 points.
        """
        angle = np.linspace(-np.pi / 2, np.pi / 2, N_PARTICLES)
        return Particles(self.box + ARC * np.stack([np.cos(angle), np.sin(angle)], axis=1))

    def save_state(self) -> Arrays:
        """Everything that decides the rest of the episode, and the draws of those after it."""
        return {
            "physics": self._world.state(self._data),
            "goal": self._goal.copy(),
            "context": self.draws.context.copy(),
            "counts": np.array([self._steps, self.draws.began], np.int64),
            "random": random_words(self.np_random),
        }

    def restore_state(self, arrays: Arrays) -> None:
        """Go on where `save_state` was called; the distribution of contexts stays as it is."""
        physics = np.array(arrays["physics"], np.float64)
        if physics.shape != self._world.start.shape:
            raise InvalidInput(f"expected the state of a FetchPush environment, got physics of shape {physics.shape}")
        self._world.put(self._data, physics)
        self._goal = np.array(arrays["goal"], np.float64)
        self.draws.context = np.array(arrays["context"], np.float64)
        self._steps, self.draws.began = (int(count) for count in arrays["counts"])
        set_random_words(self.np_random, arrays["random"])

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """Robot, table and box, and the goal with its success radius as a green disc on the table."""
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
        disc = (self.success_radius, 0.001, 0.0)  # radius and half height
        colour = np.array([0.1, 0.7, 0.2, 0.5], np.float32)
        marker = mujoco.mjtGeom.mjGEOM_CYLINDER
        mujoco.mjv_initGeom(scene.geoms[scene.ngeom], marker, np.array(disc), top, np.eye(3).ravel(), colour)
        scene.ngeom += 1
        picture: NDArray[np.uint8] = self._renderer.render()
        return picture

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _new_renderer(self) -> Any:
        try:
            self._world.mujoco.GLContext(SIZE, SIZE).free()  # a renderer that cannot have one leaves an error behind
            return self._world.mujoco.Renderer(self._world.model, SIZE, SIZE)
        except Exception as error:
            raise InvalidInput(f"expected OpenGL for pictures, got {told(error, 120)}; {GL_HINT}") from error

    def _place(self, context: FloatArray) -> FloatArray:
        """The goal on the table."""
        for _ in range(REDRAWS if self.goal_noise > 0 else 1):
            goal = context + self.goal_noise * self.np_random.standard_normal(2)
            if math.dist(goal, self.box) > self.success_radius:
                return goal
        away = context - self.box
        away = away / np.hypot(*away) if away.any() else np.array([1.0, 0.0])
        return self.box + 1.001 * self.success_radius * away

    def _observation(self) -> Observation:
        world, obs = self._world, np.empty(28, np.float64)
        of_grip, of_box = self._velocities
        velocity, site = world.mujoco.mj_objectVelocity, world.mujoco.mjtObj.mjOBJ_SITE
        velocity(world.model, self._data, site, world.grip, of_grip, 0)
        velocity(world.model, self._data, site, world.box, of_box, 0)
        obs[0:3] = self._grip
        obs[3:6] = self._box
        obs[6:9] = self._box - self._grip
        obs[9:11] = self._qpos_fingers
        obs[11:14] = euler(self._box_rotation)
        obs[14:17] = (of_box[3:] - of_grip[3:]) * self._dt
        obs[17:20] = of_box[:3] * self._dt
        obs[20:23] = of_grip[3:] * self._dt
        obs[23:25] = self._qvel_fingers * self._dt
        obs[25:28] = self._goal
        return obs.astype(np.float32)


WORD = 2**64 - 1


def random_words(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The state of Gymnasium's generator (PCG64) as six words."""
    state: Any = rng.bit_generator.state
    numbers = state["state"]["state"], state["state"]["inc"]
    halves = [half for number in numbers for half in (number >> 64, number & WORD)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], np.uint64)


def set_random_words(rng: np.random.Generator, words: NDArray[Any]) -> None:
    a, b, c, d, has, last = (int(word) for word in words)
    state = {"state": a << 64 | b, "inc": c << 64 | d}
    rng.bit_generator.state = {"bit_generator": "PCG64", "state": state, "has_uint32": has, "uinteger": last}
