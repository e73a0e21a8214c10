"""Plans between weighted points: exact, sorted on the line, by cells and refined above a size; assignments."""

from geodesic.coupling.pairwise import Couplings, pairwise_plans
from geodesic.coupling.partitioned import partitioned_plan
from geodesic.coupling.plans import (
    Plan,
    as_costs,
    as_table,
    assignment,
    cheapest,
    exact_plan,
    shortest_hops,
    sorted_plan,
)
from geodesic.coupling.simplex import unit

__all__ = [
    "Couplings",
    "Plan",
    "as_costs",
    "as_table",
    "assignment",
    "cheapest",
    "exact_plan",
    "pairwise_plans",
    "partitioned_plan",
    "shortest_hops",
    "sorted_plan",
    "unit",
]
