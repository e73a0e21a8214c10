"""Writing the policy of a run to a file that other programs can use."""

from __future__ import annotations

from pathlib import Path

from geodesic import numpy_policy
from geodesic.errors import InvalidInput
from geodesic.records import read_config
from geodesic.records.archive import write_archive
from geodesic.records.files import write_atomically
from geodesic.runs.policies import portable_policy
from geodesic.runs.run import load_model
from geodesic.tasks import Task
from geodesic.training.objects import Objects

FORMATS = (".npz", ".onnx", ".zip")


def export_policy(
    folder: Path,
    out: Path,
    which: str,
    task: Task | None = None,
    objects: Objects | None = None,
    trust: bool = False,
) -> list[Path]:
    """Write the best or the last policy of a run in the format that the name of the file ends with.

    .npz: arrays, and next to it their loader, which needs NumPy only. .onnx: a graph for ONNX runtimes. .zip: what
    `model.save` of Stable-Baselines3 or SBX writes, and next to it VecNormalize, for runs that these libraries trained.
    trust: see `check_origin`; only .zip needs it.
    """
    if out.suffix not in FORMATS:
        raise InvalidInput(f"expected a file that ends with {', '.join(FORMATS)}, got {out}")
    if out.suffix == ".zip":
        return _write_model(folder, out, which, task, objects, trust)
    policy = portable_policy(folder, which)
    if out.suffix == ".onnx":
        from geodesic.integrations.onnx import to_onnx

        graph = to_onnx(policy)
        write_atomically(out, lambda file: file.write(graph))
        return [out]
    write_archive(out, policy.arrays)
    source = Path(numpy_policy.__file__)
    loader = out.with_name(source.name)
    write_atomically(loader, lambda file: file.write(source.read_bytes()))
    return [out, loader]


def _write_model(
    folder: Path, out: Path, which: str, task: Task | None, objects: Objects | None, trust: bool
) -> list[Path]:
    config = read_config(folder)
    if config.backend not in ("sb3", "sbx"):
        raise InvalidInput(f"expected a run of Stable-Baselines3 or SBX for {out.name}, got one of {config.backend}")
    if config.learner is None:
        raise InvalidInput(
            f"expected a run of the backend {config.backend} for {out.name}, got one of a script, which "
            "makes its model; try gd.sb3.restore(model, folder) and model.save there"
        )
    model = load_model(folder, which, task, objects, trust)
    write_atomically(out, lambda file: model.save(file))
    normalizer = model.get_vec_normalize_env()
    if normalizer is None:
        return [out]
    import pickle

    moments = out.with_name(f"{out.stem}_vecnormalize.pkl")  # the name and format of VecNormalize.load's file
    write_atomically(moments, lambda file: pickle.dump(normalizer, file))
    return [out, moments]
