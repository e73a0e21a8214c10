"""Run folders: their schema, writer and reader, the lock, configurations and checkpoints."""

from geodesic.records.checkpoint import Checkpoint
from geodesic.records.config import RunConfig, config_in, read_config, versions
from geodesic.records.files import read_json, write_json
from geodesic.records.lock import FolderLock
from geodesic.records.origin import check_origin
from geodesic.records.reader import RunResult, by_label, load_comparison, load_run
from geodesic.records.schema import StageDistribution, checkpoint_path, finished, generations, run_exists
from geodesic.records.writer import RunFolder, check_recorded_config

__all__ = ["RunConfig", "config_in", "read_config", "versions"]
__all__ += ["Checkpoint", "FolderLock", "RunFolder", "StageDistribution", "check_origin", "check_recorded_config"]
__all__ += ["checkpoint_path", "finished", "generations", "read_json", "run_exists", "write_json"]
__all__ += ["RunResult", "by_label", "load_comparison", "load_run"]


def __dir__() -> list[str]:
    return __all__
