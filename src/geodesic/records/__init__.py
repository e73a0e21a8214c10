"""What a run leaves behind: one folder module (schema, writer, reader), its lock, configuration and checkpoints."""

from geodesic.records.checkpoint import Checkpoint
from geodesic.records.config import RunConfig, versions
from geodesic.records.files import read_json
from geodesic.records.lock import FolderLock
from geodesic.records.reader import RunResult, by_label, load_comparison, load_run
from geodesic.records.schema import begun, checkpoint_path, finished, generations
from geodesic.records.stages import StageDistribution
from geodesic.records.writer import RunFolder, config_in, read_config, write_json

__all__ = [
    "Checkpoint",
    "FolderLock",
    "RunConfig",
    "RunFolder",
    "RunResult",
    "StageDistribution",
    "begun",
    "by_label",
    "checkpoint_path",
    "config_in",
    "finished",
    "generations",
    "load_comparison",
    "load_run",
    "read_config",
    "read_json",
    "versions",
    "write_json",
]
