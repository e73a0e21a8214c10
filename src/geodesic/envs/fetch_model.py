"""The Fetch robot, a table and a box for MuJoCo: gymnasium-robotics' model, edited in memory and put into its start."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from geodesic.contexts import FloatArray
from geodesic.errors import InvalidInput, MissingExtra

SUBSTEPS = 20  # of MuJoCo's 0.002 s in one action
REACH = (-0.498, 0.005, -0.431)  # from the robot's rest to the gripper's start, as gymnasium-robotics moves it
DOWN = (1.0, 0.0, 1.0, 0.0)  # the gripper's orientation: fingers to the table
# Bodies that lie close to each other but touch in no posture within the joints' ranges (a test draws thousands), so
# that leaving them out of the search for contacts changes no bit of a trajectory; it saves time.
APART = (
    ("robot0:base_link", "robot0:shoulder_pan_link"),
    ("robot0:base_link", "table0"),
    ("robot0:laser_link", "table0"),
    ("robot0:torso_fixed_link", "robot0:head_pan_link"),
    ("robot0:torso_fixed_link", "robot0:shoulder_pan_link"),
    ("robot0:torso_fixed_link", "robot0:shoulder_lift_link"),
    ("robot0:head_pan_link", "robot0:shoulder_pan_link"),
    ("robot0:head_pan_link", "robot0:shoulder_lift_link"),
    ("robot0:head_tilt_link", "robot0:shoulder_pan_link"),
    ("robot0:head_tilt_link", "robot0:shoulder_lift_link"),
)


@dataclass(frozen=True)
class Geometry:
    """What differs between the authors' model and the stock one: the robot's base, the table, where the box starts.

    base: x of the base; table, halves: the table's centre and half-sizes; friction: the table's, None for MuJoCo's
    default. The authors' friction has no effect: MuJoCo takes the larger value of a contact, and the box has 1.
    """

    base: float = 0.05
    table: tuple[float, float, float] = (1.324, 0.75, 0.2)
    halves: tuple[float, float, float] = (0.625, 0.45, 0.2)
    friction: tuple[float, float, float] | None = (0.1, 0.005, 0.0001)
    ahead: float = 0.15  # of the gripper: where the box starts


PAPER = Geometry()
STOCK = Geometry(base=0.405, table=(1.3, 0.75, 0.2), halves=(0.25, 0.35, 0.2), friction=None)


@dataclass(frozen=True, eq=False)
class World:
    """A compiled model, which all environments of a process share, and the state in which every episode begins."""

    mujoco: Any  # the module
    model: Any
    start: FloatArray
    grip: int  # sites
    box: int
    hand: int  # the body that follows the mocap
    fingers: slice  # in qpos; they are the last joints before the box
    finger_speeds: slice  # in qvel
    height: float  # at which the box rests

    def state(self, data: Any) -> FloatArray:
        """All that decides what a simulation does next: positions, speeds, mocap, the solver's warm start."""
        part = self.mujoco.mjtState.mjSTATE_INTEGRATION
        found = np.zeros(self.mujoco.mj_stateSize(self.model, part))
        self.mujoco.mj_getState(self.model, data, found, part)
        return found

    def put(self, data: Any, state: FloatArray) -> None:
        """A simulation into that state, with the places of bodies and sites, which observations and actions use."""
        part = self.mujoco.mjtState.mjSTATE_INTEGRATION
        self.mujoco.mj_setState(self.model, data, state, part)
        self.mujoco.mj_forward(self.model, data)
        self.mujoco.mj_setState(self.model, data, state, part)  # the warm start, which the line before replaced


def simulator() -> Any:
    """MuJoCo's module, or an error that says how to get it."""
    for package in ("mujoco", "gymnasium_robotics"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package.replace("_", "-"), "mujoco")
    try:
        import mujoco
    except Exception as error:  # with MUJOCO_GL set to a library that is missing, the import itself fails
        raise InvalidInput(f"cannot import mujoco: {type(error).__name__}: {error}; {GL_HINT}") from error
    return mujoco


GL_HINT = "try MUJOCO_GL=egl or MUJOCO_GL=osmesa for pictures, MUJOCO_GL=disabled without them"


def description() -> Path:
    """Gymnasium-robotics' model; the package is not imported, which would register and print."""
    spec = importlib.util.find_spec("gymnasium_robotics")
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    return Path(places[0], "envs", "assets", "fetch", "push.xml")


@cache
def build(geometry: Geometry) -> World:
    """The world of this geometry, compiled once."""
    mujoco = simulator()
    spec = mujoco.MjSpec.from_file(str(description()))
    table = spec.body("table0")
    table.pos = geometry.table
    table.geoms[0].size = geometry.halves
    if geometry.friction is not None:
        table.geoms[0].friction = geometry.friction
    for one, other in APART:
        spec.add_exclude(bodyname1=one, bodyname2=other)
    model = spec.compile()
    welds = model.eq_type == mujoco.mjtEq.mjEQ_WELD
    model.eq_data[welds, :7] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)  # the hand onto the mocap, without an offset
    left, right = (model.joint(f"robot0:{side}_gripper_finger_joint") for side in "lr")
    first, speed = min(left.qposadr[0], right.qposadr[0]), min(left.dofadr[0], right.dofadr[0])
    grip, box = model.site("robot0:grip").id, model.site("object0").id
    data, height = settled(mujoco, model, geometry, grip, box)
    world = World(
        mujoco=mujoco,
        model=model,
        start=np.empty(0),
        grip=grip,
        box=box,
        hand=model.body("robot0:gripper_link").id,
        fingers=slice(first, first + 2),
        finger_speeds=slice(speed, speed + 2),
        height=height,
    )
    return replace(world, start=world.state(data))


def settled(mujoco: Any, model: Any, geometry: Geometry, grip: int, box: int) -> tuple[Any, float]:
    """The simulation at an episode's beginning, and the box's height: gymnasium-robotics' way there.

    The hand is pulled to its place for ten steps while the box comes to rest on the table. Episodes begin with that
    posture, the box moved in front of the gripper, and everything else as MuJoCo resets it.
    """
    data = mujoco.MjData(model)
    for joint, value in (("slide0", geometry.base), ("slide1", 0.48), ("slide2", 0.0)):
        data.joint(f"robot0:{joint}").qpos[0] = value
    data.joint("object0:joint").qpos[:] = (1.25, 0.53, 0.4, 1.0, 0.0, 0.0, 0.0)
    mujoco.mj_forward(model, data)
    data.mocap_pos[0] = np.array(REACH) + data.site_xpos[grip]
    data.mocap_quat[0] = DOWN
    for _ in range(10):
        mujoco.mj_step(model, data, nstep=SUBSTEPS)
    gripper, height = data.site_xpos[grip].copy(), float(data.site_xpos[box][2])
    time, posture, speeds = data.time, data.qpos.copy(), data.qvel.copy()
    mujoco.mj_resetData(model, data)
    data.time, data.qpos[:], data.qvel[:] = time, posture, speeds
    data.joint("object0:joint").qpos[:2] = gripper[0] + geometry.ahead, gripper[1]
    mujoco.mj_forward(model, data)
    return data, height


def euler(matrix: FloatArray) -> tuple[float, float, float]:
    """The angles of a rotation matrix given as its nine entries, in gymnasium-robotics' convention."""
    a, b, c, d, e, f, _, _, i = matrix.tolist()
    across = math.hypot(i, f)
    if across > 4 * np.finfo(np.float64).eps:
        return -math.atan2(f, i), -math.atan2(-c, across), -math.atan2(b, a)
    return 0.0, -math.atan2(-c, across), -math.atan2(-d, e)
