"""An episode in the measure of its task, as environments of other libraries tell of it."""

from __future__ import annotations

import numpy as np

from geodesic.errors import InvalidInput
from geodesic.tasks import Task


def score_of(task: Task, earned: float, success: float, discounted: float) -> float:
    """An episode in the task's measure."""
    if task.measure == "success" and np.isnan(success):
        raise InvalidInput("expected info['is_success'], since that is what the task measures, got none")
    return {"return": earned, "success": success, "discounted": discounted}[task.measure]
