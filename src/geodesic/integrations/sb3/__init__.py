"""Curricula for Stable-Baselines3 and SBX: `geodesic.sb3.CurriculumCallback`."""

from geodesic.errors import MissingExtra

try:
    import stable_baselines3  # noqa: F401
except ImportError as error:
    raise MissingExtra("stable-baselines3", "sb3") from error

from geodesic.integrations.sb3.callback import CurriculumCallback
from geodesic.integrations.sb3.models import restore

__all__ = ["CurriculumCallback", "restore"]
