"""Untrusted run folders: nothing in them is executed or changed, little is read, and the error is ours."""

import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from killable_run import InstantTrainer

import geodesic as gd
from geodesic.errors import CheckpointError, GeodesicError, InvalidInput
from geodesic.records import checkpoint, checkpoint_path, generations, load_run
from geodesic.records.checkpoint import FORMAT
from geodesic.runs import run
from geodesic.training.configure import configure
from known_returns import varied_returns
from run_files import release

MEMORY = 20 * 2**20  # bytes that a refusal may take


class Trap:
    """Executes code when it is unpickled."""

    def __reduce__(self):
        return (open, ("TRAPPED", "w"))


@pytest.fixture(autouse=True)
def traps(tmp_path, monkeypatch):
    """Code that was executed leaves a file behind."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "TRAPPED").exists()


@pytest.fixture(scope="module")
def task():
    return varied_returns(training={"steps": 300})


@pytest.fixture
def folder(tmp_path, task, monkeypatch):
    """A run that was interrupted after two segments, with one checkpoint."""
    monkeypatch.setattr(run, "trainer_of", lambda *_: InstantTrainer())
    batch = run.start([configure(task, "gradient:window=5")], [tmp_path / "run"], task)
    batch.segment = 0
    for _ in range(2):
        batch._finish_segment()
    batch._evaluate()
    batch.save()
    release(batch)
    generations(tmp_path / "run")[1].unlink()
    (tmp_path / "precious.csv").write_text("do not touch")
    return tmp_path / "run"


def everything(folder):
    """The content of every file in the parent folder; of links their targets."""
    return {
        str(path): path.readlink() if path.is_symlink() else path.read_bytes()
        for path in folder.parent.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def refused(folder, task, match=None):
    """Check that resuming fails with our error, changes nothing and takes little memory."""
    before = everything(folder)
    tracemalloc.start()
    try:
        with pytest.raises((CheckpointError, InvalidInput), match=match) as error:
            run.resume([configure(task, "gradient:window=5")], [folder], task)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert everything(folder) == before
    assert peak < MEMORY, peak


def rewrite(folder, arrays=None, meta=None):
    """Change parts of the checkpoint (None: remove them), with a valid checksum."""
    path = checkpoint_path(folder)
    kept = checkpoint.load(path)
    members = {**kept.arrays, **(arrays or {})}
    checkpoint.save(path, {k: v for k, v in members.items() if v is not None}, {**kept.meta, **(meta or {})})


def npy(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=True)
    return stream.getvalue()


def members_of(folder):
    with zipfile.ZipFile(checkpoint_path(folder)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack_members(folder, members, compression=zipfile.ZIP_STORED):
    """Write these members as the checkpoint, with a valid checksum."""
    with zipfile.ZipFile(checkpoint_path(folder), "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    add_checksum(checkpoint_path(folder))


def add_checksum(path):
    """Replace the empty comment of an archive by a valid checksum."""
    whole = path.read_bytes()[:-2] + b"\x40\0"
    path.write_bytes(whole + hashlib.blake2b(whole, digest_size=32).hexdigest().encode())


def test_the_run_itself_resumes(folder, task):
    rewrite(folder)
    run.resume([configure(task, "gradient:window=5")], [folder], task).train()
    assert load_run(folder).finished


def test_pickles_are_not_loaded(folder, task):
    objects = np.array([Trap()], dtype=object)
    for name in ("device", "curriculum/alpha", "__json__", "new"):
        pack_members(folder, {**members_of(folder), f"{name}.npy": npy(objects)})
        refused(folder, task, "is not a plain array of numbers or strings")
    pack_members(folder, {**members_of(folder), "device.npy": pickle.dumps(Trap())})
    refused(folder, task, "a member is not an array")
    checkpoint_path(folder).write_bytes(pickle.dumps(Trap()))
    refused(folder, task, "it has no checksum")


def test_compressed_members_are_refused_before_they_are_read(folder, task):
    whole = members_of(folder)
    zeros = npy(np.zeros(5 * 2**25, np.uint8))  # 160 MiB
    pack_members(folder, {**whole, "device.npy": zeros}, zipfile.ZIP_DEFLATED)
    assert checkpoint_path(folder).stat().st_size < 2**20
    refused(folder, task, "is compressed or encrypted")


def test_false_shapes_are_refused(folder, task):
    whole = members_of(folder)
    for shape in ((2**40,), (2**20, 2**20), (10**18, 10**18), (0, 10**18), (-1,), (3,)):
        false = npy(np.zeros(2)).replace(b"(2,), }" + b" " * (len(str(shape)) - 4), f"{shape}, }}".encode())
        assert str(shape).encode() in false
        pack_members(folder, {**whole, "device.npy": false})
        refused(folder, task)


def test_overlapping_members_are_refused(folder, task):
    """The data of one member is listed a thousand times."""
    path = checkpoint_path(folder)
    pack_members(folder, {**members_of(folder), "big.npy": npy(np.zeros(2**19, np.uint8))})
    whole = path.read_bytes()
    end = whole.rindex(b"PK\5\6")
    start = struct.unpack("<L", whole[end + 16 : end + 20])[0]
    entry = whole[whole.rindex(b"PK\1\2") : end]
    names = [f"{k:03}.npy".encode() for k in range(1000)]
    listed = whole[start:end] + b"".join(entry.replace(b"big.npy", name) for name in names)
    tail = whole[end : end + 8] + struct.pack("<2H2LH", 999, 999, len(listed), start, 0)
    path.write_bytes(whole[:start] + listed + tail)
    add_checksum(path)
    refused(folder, task)


def test_a_very_long_list_of_members_is_refused(folder, task):
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0) + b"a.npy"
    listed = entry * 300_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, len(listed), 0, 0)
    checkpoint_path(folder).write_bytes(listed + end)
    add_checksum(checkpoint_path(folder))
    refused(folder, task, "too many members")


def waiting(**changes):
    """One waiting episode, with some of its columns changed."""
    columns = {name: np.zeros(1) for name in ("returns", "discounted", "successes")}
    columns |= {name: np.ones(1, int) for name in ("lengths", "stages", "started", "ended")}
    return {f"waiting/{name}": column for name, column in {"contexts": np.zeros((1, 2)), **columns, **changes}.items()}


INVALID_ARRAYS = {
    "shape": {"device": np.zeros((2, 2))},
    "type": {"device": np.zeros(2, np.float32)},
    "missing": {"device": None},
    "additional member": {"evil": np.zeros(1)},
    "absolute path": {"/etc/passwd": np.zeros(1)},
    "path to the parent folder": {"../../precious.csv": np.zeros(1)},
    "unknown field": {"curriculum/evil": np.zeros(1)},
    "string for a number": {"curriculum/alpha": np.array("x")},
    "array for a number": {"curriculum/stage": np.zeros(2, int)},
    "negative stage": {"curriculum/stage": np.array(-1)},
    "alpha is NaN": {"curriculum/alpha": np.array(np.nan)},
    "unknown kind": {"curriculum/kind": np.array("evil")},
    "another dimension": {"curriculum/distribution/points": np.zeros((3, 5)),
                          "curriculum/distribution/weights": np.full(3, 1 / 3)},
    "points are NaN": {"curriculum/distribution/points": np.full((3, 2), np.nan),
                             "curriculum/distribution/weights": np.full(3, 1 / 3)},
    "negative weights": {"curriculum/distribution/weights": np.array([-1.0])},
    "no distribution": {"curriculum/distribution/points": None},
    "best policy of another shape": {"best/device": np.zeros(3)},
    "best policy that is not a number": {"best/device": np.full(2, np.nan)},
    "best policy that is infinite": {"best/device": np.array([0.0, np.inf])},
    "best policy of another name": {"best/evil": np.zeros(2)},
    "best policy in the place of a curriculum": {"best/curriculum/alpha": np.array(0.5)},
    "waiting episodes of another dimension": waiting(contexts=np.zeros((1, 7))),
    "waiting episodes with starts of another shape": {"waiting/started": np.zeros((2, 2))},
    "waiting episode of negative length": waiting(lengths=np.array([-3])),
    "waiting episode of a negative stage": waiting(stages=np.array([-1])),
}  # fmt: skip


@pytest.mark.parametrize("arrays", INVALID_ARRAYS.values(), ids=INVALID_ARRAYS)
def test_members_of_other_names_types_shapes_and_values_are_refused(folder, task, arrays):
    rewrite(folder, arrays)
    refused(folder, task)


def tables(**changes):
    """The entry of empty tables in a checkpoint, with one of them changed."""
    empty = {"bytes": 0, "digest": hashlib.blake2b(digest_size=32).hexdigest()}
    return {"tables": {"episodes.csv": empty, "evaluations.csv": empty, "stages.csv": empty, **changes}}


INVALID_META = {
    "negative counter": {"updates": -1},
    "negative segment": {"segment": -3},
    "fraction": {"segment": 1.5},
    "boolean": {"segment": True},
    "string": {"segment": "2"},
    "huge": {"segment": 10**30},
    "nothing": {"segment": None},
    "slot too large": {"slot": 1},
    "negative slot": {"slot": -1},
    "no batch members": {"batch_members": []},
    "batch members that are numbers": {"batch_members": [1, 2]},
    "too many batch members": {"batch_members": ["x"] * 100_001},
    "no tables": {"tables": []},
    "a table too long": tables(**{"episodes.csv": {"bytes": 10**9, "digest": ""}}),
    "a table of negative length": tables(**{"episodes.csv": {"bytes": -5, "digest": ""}}),
    "another digest": tables(**{"episodes.csv": {"bytes": 3, "digest": "0" * 64}}),
    "a digest that is a number": tables(**{"episodes.csv": {"bytes": 3, "digest": 7}}),
    "no stages": {"stages": {"count": 0, "digest": ""}},
    "negative number of stages": {"stages": {"count": -1, "digest": ""}},
    "another run": {"config": {"task": "evil"}},
    "score that is a string": {"train_score": "good"},
    "no best policy": {"best": None},
    "best score that is a list": {"best": {"recent": [], "score": [1], "step": 0}},
    "best policy of a negative step": {"best": {"recent": [], "score": 1.0, "step": -1}},
    "deep nesting": {"updates": json.loads("[" * 100 + "]" * 100)},
}


@pytest.mark.parametrize("meta", INVALID_META.values(), ids=INVALID_META)
def test_metadata_of_other_types_and_values_is_refused(folder, task, meta):
    rewrite(folder, meta=meta)
    refused(folder, task)


def test_a_state_of_holes_is_refused_before_it_is_read(folder, task, monkeypatch):
    monkeypatch.setattr("geodesic.training.validate_checkpoint.LONGEST", 2**20)
    rewrite(folder, {"curriculum/recent": np.zeros(2**18)})
    refused(folder, task, "expected the state of a curriculum of at most 1048576 bytes, got 21")


def test_file_names_are_never_read_from_a_file(folder, task):
    nothing = {"bytes": 0, "digest": hashlib.blake2b(digest_size=32).hexdigest()}
    kept = checkpoint.load(checkpoint_path(folder))
    elsewhere = {str(folder.parent / "precious.csv"): nothing, "../precious.csv": nothing}
    rewrite(folder, meta={"tables": {**elsewhere, **kept.meta["tables"]}, "lengths": {"../precious.csv": 0}})
    run.resume([configure(task, "gradient:window=5")], [folder], task).train()
    assert (folder.parent / "precious.csv").read_text() == "do not touch"


@pytest.mark.parametrize("name", ["episodes.csv", ".lock"])
def test_links_out_of_the_folder_are_not_followed(folder, task, name):
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(folder.parent / "precious.csv")
    rewrite(folder, meta=tables())
    refused(folder, task)


def test_a_link_that_takes_the_place_of_a_folder_during_a_run_is_not_followed(folder, task):
    batch = run.resume([configure(task, "gradient:window=5")], [folder], task)
    (folder / "checkpoint").rename(folder / "moved")
    (folder.parent / "latest.npz").write_text("do not touch")
    (folder / "checkpoint").symlink_to(folder.parent)
    with pytest.raises(InvalidInput, match="checkpoint is a link"):
        batch.save()
    release(batch)
    assert (folder.parent / "latest.npz").read_text() == "do not touch"


def test_metadata_that_is_not_json_is_refused(folder, task):
    whole = members_of(folder)
    for text in (b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"format": 1}', json.dumps({"format": FORMAT}).encode()):
        pack_members(folder, {**whole, "__json__.npy": npy(np.frombuffer(text, np.uint8))})
        refused(folder, task)
    pack_members(folder, {**whole, "__json__.npy": npy(np.zeros(3))})
    refused(folder, task, "expected format")
    pack_members(folder, {**whole, "__json__.npy": npy(np.zeros(2**21, np.uint8))})
    refused(folder, task, "expected format")


def test_an_older_format_is_named(folder, task):
    kept = checkpoint.load(checkpoint_path(folder))
    text = json.dumps({**kept.meta, "format": "geodesic-checkpoint-1"}).encode()
    np.savez(checkpoint_path(folder), **kept.arrays, __json__=np.frombuffer(text, np.uint8))
    refused(folder, task, "it has no checksum; it was truncated, or is of an older format")
    add_checksum(checkpoint_path(folder))
    refused(folder, task, f"expected format {FORMAT}, got 'geodesic-checkpoint-1'")


@pytest.mark.parametrize("file", ["curriculum.npz", "checkpoint/latest.npz", "episodes.csv", "stages.csv"])
def test_folders_and_pipes_in_place_of_files_are_refused(folder, task, file):
    (folder / file).unlink()
    (folder / file).mkdir()
    refused(folder, task)
    (folder / file).rmdir()
    os.mkfifo(folder / file)  # must not be opened: that would block forever
    with pytest.raises(CheckpointError):
        run.resume([configure(task, "gradient:window=5")], [folder], task)


def test_an_invalid_configuration_is_refused(folder, task):
    path = folder / "config.json"
    whole = json.loads(path.read_text())
    texts = [
        "",
        "{",
        "[]",
        "3",
        "[" * 100_000,
        *(json.dumps({k: whole[k] for k in whole if k != missing}) for missing in whole),
    ]
    wrong = [
        {**whole, name: value} for name in whole for value in (None, [3], {"x": 1}, -1, "é", True) if name in whole
    ]
    passed = 0
    for text in [*texts, *map(json.dumps, wrong)]:
        path.write_text(text)
        before = everything(folder)
        try:
            release(run.extend(folder, None, task))
        except GeodesicError:
            assert everything(folder) == before
        else:
            passed += 1
    assert passed <= 15  # such as changed versions, and another signature where no code is named


@pytest.mark.parametrize("rounds", [300, pytest.param(1000, marks=pytest.mark.slow)])
def test_flipped_bits_are_detected(folder, task, rounds):
    """Each one in the checkpoint, the stages or the tables is an error of ours, and nothing is changed."""
    rng = np.random.default_rng()
    files = ["checkpoint/latest.npz"] * 3 + ["curriculum.npz", "episodes.csv", "stages.csv", "evaluations.csv"]
    config = configure(task, "gradient:window=5")
    run.RunFolder(folder, config).load()
    for _ in range(rounds):
        path = folder / str(rng.choice(files))
        whole = path.read_bytes()
        place, bit = int(rng.integers(len(whole))), int(rng.integers(8))
        flipped = bytearray(whole)
        flipped[place] ^= 1 << bit
        path.write_bytes(flipped)
        before = everything(folder)
        with pytest.raises(CheckpointError):
            print(path, place, bit, run.RunFolder(folder, config).load())
        assert everything(folder) == before
        path.write_bytes(whole)


def test_parameters_that_are_not_finite_are_refused(tmp_path):
    config = configure("maze", "uniform", 0, 500)
    release(run.start([config], [tmp_path / "run"]))
    path = checkpoint_path(tmp_path / "run")
    kept = checkpoint.load(path)
    name = next(name for name in kept.arrays if "kernel" in name or "params" in name)
    for bad in (np.nan, np.inf):
        damaged = kept.arrays[name].copy()
        damaged.flat[0] = bad
        checkpoint.save(path, {**kept.arrays, name: damaged}, kept.meta)
        before = everything(tmp_path / "run")
        with pytest.raises(CheckpointError, match="the agent's parameters are not finite"):
            run.resume([config], [tmp_path / "run"])
        assert everything(tmp_path / "run") == before


def test_a_teachers_folder_is_validated_too(tmp_path):
    given = {"contexts": {"size": (0.0, 1.0)}, "source": {"size": (0.8, 1.0)}, "target": {"size": (0.0, 0.1)}}
    own = gd.Task("CartPole-v1", set_context=lambda env, size: None, threshold=10.0, **given)
    gd.Teacher(own, out=tmp_path / "run").close()
    generations(tmp_path / "run")[1].unlink(missing_ok=True)
    path = checkpoint_path(tmp_path / "run")
    kept = checkpoint.load(path)
    shutil.copytree(tmp_path / "run", tmp_path / "good")
    path.with_name("previous.npz").unlink(missing_ok=True)
    for arrays, meta in (
        ({"evil": np.zeros(1)}, {}),
        ({"curriculum/stage": np.array(-1)}, {}),
        ({}, {"step": -1}),
        ({}, {"samples": "x"}),
        ({}, {"started": 1.5}),
        ({}, {"evaluated": None}),
    ):
        checkpoint.save(path, {**kept.arrays, **arrays}, {**kept.meta, **meta})
        before = everything(tmp_path / "run")
        with pytest.raises(CheckpointError):
            gd.Teacher(own, out=tmp_path / "run")
        assert everything(tmp_path / "run") == before
    assert gd.Teacher(own, out=tmp_path / "good").step == 0


def mixed_teacher(folder):
    given = {
        "contexts": {"size": (0.0, 1.0), "opponent": ["passive", "random"], "walls": range(3)},
        "source": {"size": 0.9, "opponent": "passive", "walls": 0},
        "target": {"size": 0.1, "opponent": "random", "walls": 2},
    }
    own = gd.Task("CartPole-v1", set_context=lambda env, size, opponent, walls: None, threshold=10.0, **given)
    return gd.Teacher(own, "gradient", out=folder)


@pytest.mark.parametrize("meta", [{"step": -1}, {"samples": "x"}, {"started": 1.5}, {"evaluated": 2}])
def test_a_teacher_refuses_a_checkpoint_before_it_cuts_the_tables(tmp_path, meta):
    teacher = mixed_teacher(tmp_path / "run")
    teacher.close()
    generations(tmp_path / "run")[1].unlink(missing_ok=True)
    kept = checkpoint.load(checkpoint_path(tmp_path / "run"))
    teacher = mixed_teacher(tmp_path / "run")
    teacher.report(teacher.sample(4), np.ones(4), np.ones(4))  # rows that this checkpoint does not have
    teacher.close()
    shutil.rmtree(checkpoint_path(tmp_path / "run").parent)
    checkpoint.save(checkpoint_path(tmp_path / "run"), kept.arrays, {**kept.meta, **meta})
    before = everything(tmp_path / "run")
    with pytest.raises(CheckpointError):
        mixed_teacher(tmp_path / "run")
    assert everything(tmp_path / "run") == before


@pytest.mark.parametrize(("column", "value"), [(0, 1.1), (0, -1e9), (1, 2), (1, -1), (1, 0.5), (2, 3), (2, 0.5)])
def test_contexts_that_a_task_does_not_have_are_refused(tmp_path, column, value):
    """A category that is not in the list would reach `set_context` as another one, or as an error."""
    mixed_teacher(tmp_path / "run").close()
    kept = checkpoint.load(checkpoint_path(tmp_path / "run"))
    points = kept.arrays["curriculum/distribution/points"].copy()
    points[-1, column] = value
    changed = {"curriculum/distribution/points": points}
    checkpoint.save(checkpoint_path(tmp_path / "run"), {**kept.arrays, **changed}, kept.meta)
    before = everything(tmp_path / "run")
    with pytest.raises(CheckpointError, match="expected distribution inside the task's contexts"):
        mixed_teacher(tmp_path / "run")
    assert everything(tmp_path / "run") == before


@pytest.mark.parametrize("name", ["points", "weights", "offsets", "stage", "step", "alpha"])
def test_invalid_stages_are_refused(folder, task, name):
    path = folder / "curriculum.npz"
    with np.load(path) as archive:
        whole = dict(archive)
    n = whole[name].shape[0]
    for wrong in (None, np.float64(3), np.array("x"), whole[name][:-1], np.zeros((n, 3, 3))):
        np.savez(path, **{k: v for k, v in {**whole, name: wrong}.items() if v is not None})
        with pytest.raises(CheckpointError):
            load_run(folder)
        add_checksum(path)
        refused(folder, task)
    np.savez(path, **{**whole, name: whole[name] + 1})
    add_checksum(path)
    refused(folder, task)
