"""Signatures: what this user wrote on this machine is recognised, and nothing else that names code is used."""

import json
import os
import shlex

import pytest

from geodesic.errors import InvalidInput
from geodesic.records import RunFolder, check_origin, read_config
from geodesic.records.config import RunConfig

CONFIG = RunConfig(
    task="mine.py:task", name="mine", contexts=["x"], method="gradient", label="gradient", seed=0, steps=10,
    threshold=1.0, solved=1.0, score="return", discount=0.9, metric=None, backend="jax", learner="ppo", segment=1,
    eval_every=1, eval_episodes=1, eval_policy="stochastic",
)  # fmt: skip
BUILT_IN = CONFIG.replace(task="maze")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home without a key."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path


def written(folder, config):
    """The configuration's file, as a run writes it."""
    made = RunFolder(folder, config)
    made.create()
    made.release()
    return folder / "config.json"


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_what_this_user_wrote_may_name_code(home):
    path = written(home / "run", CONFIG)
    check_origin(path, read_config(home / "run"))
    (home / "moved").mkdir()
    path.rename(home / "moved" / "config.json")
    check_origin(home / "moved" / "config.json", CONFIG)


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "other.py:task"},
        {"method": "other:Method"},
        {"metric": "other.py:metric"},
        {"learner": "package.module:Learner"},
        {"options": {"pace": "other.py:Pace"}},
        {"options": {"parts": [{"deep": "other.py:Part"}]}},
        {"learner_options": {"policy": "other.py:Policy"}},
        {"signature": ""},
        {"signature": None},
        {"signature": 3},
        {"signature": "é" * 64},
    ],
    ids=str,
)
def test_code_that_somebody_else_names_needs_trust(home, changes):
    path = written(home / "run", CONFIG)
    change(path, **changes)
    with pytest.raises(InvalidInput, match=r"not written by you on this machine and names code: .*; .* try --trust"):
        check_origin(path, read_config(path.parent))
    check_origin(path, read_config(path.parent), trust=True)


def test_a_configuration_without_code_needs_no_trust(home):
    path = written(home / "run", BUILT_IN)
    change(path, signature="", task="maze:eval_episodes=3")
    check_origin(path, read_config(path.parent))
    change(path, task="mine.py:task")
    check_origin(path, read_config(path.parent), task=object())  # which is not loaded by its name
    check_origin(path, read_config(path.parent), fields=("method", "learner"))


def test_another_users_signature_is_not_ours(home, monkeypatch):
    path = written(home / "run", CONFIG)
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "elsewhere"))
    written(home / "other", CONFIG)
    with pytest.raises(InvalidInput):
        check_origin(path, CONFIG)


def test_the_key_can_be_read_by_this_user_only(home):
    path = written(home / "run", CONFIG)
    key = home / "state" / "geodesic" / "key"
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert list(key.parent.iterdir()) == [key]
    key.chmod(0o644)  # others may have read it
    with pytest.raises(InvalidInput):
        check_origin(path, CONFIG)


def test_a_home_that_is_not_writable_is_replaced_by_the_temporary_folder(home):
    (home / "state").write_text("a file, in which no folder can be made")
    path = written(home / "run", CONFIG)
    check_origin(path, CONFIG)
    assert [place.name for place in (home / "temporary").iterdir()] == [f"geodesic-{os.getuid()}"]


def test_without_any_place_for_a_key_runs_are_written_and_need_trust(home):
    for name in ("state", "temporary/geodesic-" + str(os.getuid())):
        (home / name).write_text("")
    path = written(home / "run", CONFIG)
    assert json.loads(path.read_text())["signature"] == ""
    with pytest.raises(InvalidInput):
        check_origin(path, CONFIG)
    check_origin(path, CONFIG, trust=True)


def test_names_in_messages_are_short_and_plain(home):
    path = written(home / "run", CONFIG.replace(task="\x1b[31m" + "x" * 5000 + ":task"))
    change(path, signature="")
    with pytest.raises(InvalidInput) as caught:
        check_origin(path, read_config(path.parent))
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 400 + len(shlex.quote(str(path)))
