"""The examples with other libraries work, on a small budget."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

from geodesic.records import load_run
from run_files import Interrupted

EXAMPLES = Path(__file__).parent.parent / "examples"
torch.set_num_threads(1)


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")  # the example's is for 16 workers
@pytest.mark.parametrize("workers", [2, pytest.param(16, marks=pytest.mark.slow)])
def test_environments_in_processes(example, tmp_path, workers):
    model = example("subprocesses_sb3").main(256 * workers, tmp_path, workers)
    run = load_run(tmp_path)
    assert run.finished
    assert model.num_timesteps == 256 * workers
    assert len(run.episodes.steps) > 4


def test_cartpole(example, tmp_path):
    """The script itself, with another budget and folder."""
    source = (EXAMPLES / "cartpole_sb3.py").read_text().replace("20_000", "2_048")
    exec(compile(source.replace("runs/cartpole", str(tmp_path)), "cartpole_sb3", "exec"), {"__name__": "__main__"})
    run = load_run(tmp_path)
    assert run.finished
    assert run.evaluations.steps[-1] >= 2048


def test_normalization_and_other_callbacks(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = example("normalized_sb3").main(2048, tmp_path)
    run = load_run(tmp_path)
    assert run.finished
    assert run.episodes.returns.min() >= 1.0  # raw returns, not normalised ones
    assert model.get_vec_normalize_env().obs_rms.count > 2048


def test_the_scripts_on_cartpole_define_the_same_task():
    """The script in the README is complete in itself, so the task is defined twice."""
    alone, shared = ((EXAMPLES / name).read_text() for name in ("cartpole_sb3.py", "cartpole.py"))
    assert shared.split("import geodesic as gd")[1] in alone


def test_a_dict_observation_has_the_context_as_one_more_entry(example, tmp_path):
    model = example("dict_observation_sb3").main(1024, tmp_path)
    assert set(model.observation_space) == {"cart", "pole", "context"}
    assert load_run(tmp_path).finished


@pytest.mark.slow
def test_sbx(example, tmp_path):
    example("pendulum_sbx").main(1200, tmp_path, learning_starts=1000)
    run = load_run(tmp_path)
    assert run.finished
    assert run.config.backend == "sbx"
    assert len(run.episodes.steps) == 4  # of 200 steps, in four environments


def test_a_vector_loop_learns_and_resumes_after_an_interruption(example, tmp_path, monkeypatch):
    module = example("vector_loop")
    saved, teachers = [0], []

    class Interrupting(module.gd.Teacher):
        def save(self, agent=None):
            super().save(agent)
            teachers.append(self)
            saved[0] += 1
            if saved[0] == 40:
                raise Interrupted

    monkeypatch.setattr(module.gd, "Teacher", Interrupting)
    with pytest.raises(Interrupted):
        module.main(15_000, tmp_path)
    teachers[-1].close()
    saved[0] = 1000
    teacher = module.main(15_000, tmp_path)
    assert teacher.restored["weights"].shape == (4,)
    run = load_run(tmp_path)  # refuses steps that do not increase from line to line
    assert run.finished
    assert run.stages.stages[-1] >= 1
    assert run.episodes.returns[-20:].mean() > 2 * run.episodes.returns[:20].mean()
    for stage in run.curriculum:
        own = run.episodes.contexts[run.episodes.stages == stage.stage]
        gaps = np.abs(own[:, None] - stage.particles.points[None]).max(axis=-1).min(axis=1)
        assert (gaps < 1e-6).all()


@pytest.mark.slow
def test_a_film_of_a_trained_policy(example, tmp_path):
    film = example("watch_policy").main(2000, tmp_path)
    from PIL import Image

    with Image.open(film) as image:
        assert image.format == "GIF"
        assert image.n_frames > 1


def test_every_example_is_run_by_a_test():
    tests = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    names = [path.stem for path in EXAMPLES.glob("*.py")]
    assert len(names) >= 8
    assert [name for name in names if name not in tests] == []
