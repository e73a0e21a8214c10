"""WB-SPDL: SPDL along Wasserstein barycenters (Klink et al., "Metrics Matter", 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from geodesic.contexts import FloatArray
from geodesic.curricula.gaussians import BuresWasserstein, Cubature, Gaussian, StepFunction
from geodesic.curricula.regression import NadarayaWatson
from geodesic.curricula.spdl import SPDL


@dataclass(frozen=True)
class WassersteinSPDL(SPDL):
    """SPDL with the Wasserstein distance of Gaussians in place of the KL divergence.

        max_p E_p[V] - alpha W2(p, target)^2   with W2(p, old) <= max_kl,

    W2 in Bures' closed form, contexts measured so that the diagonal of the space has length 1: max_kl = 0.05 lets a
    step go 5 % of the diagonal. The square takes the KL's place in the objective, in alpha and in the trust region,
    since both are quadratic in the mean. kl_threshold still reads the KL: it only ends the bound on the std.

    E_p[V] comes from a kernel regression of this stage's returns, as wide as the trust region. Importance weights
    would fail: a step that is short in W2 can leave all samples, or shrink onto the best one.
    """

    def value(self, old: Gaussian, contexts: FloatArray, values: FloatArray) -> StepFunction:
        unit = self.space.unit_length
        return Cubature(old, NadarayaWatson(contexts / unit, values, self.max_kl), unit)

    def distance(self, old: Gaussian, other: Gaussian) -> StepFunction:
        return BuresWasserstein(old, other, self.space.unit_length)

    @property
    def radius(self) -> float:
        return self.max_kl**2
