"""What a run leaves behind: one folder module (schema, writer, reader), its lock, configuration and checkpoints."""

from geodesic.records.config import RunConfig, versions
from geodesic.records.lock import FolderLock
from geodesic.records.reader import RunResult, by_label, load_comparison, load_run
from geodesic.records.schema import StageDistribution, checkpoint_path, finished
from geodesic.records.writer import RunFolder, config_in, read_config, write_json

__all__ = [
    "FolderLock",
    "RunConfig",
    "RunFolder",
    "RunResult",
    "StageDistribution",
    "by_label",
    "checkpoint_path",
    "config_in",
    "finished",
    "load_comparison",
    "load_run",
    "read_config",
    "versions",
    "write_json",
]
