"""Folders from strangers: nothing in them is run, nothing is changed, little is read, and the error is ours."""

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
from mortal import Instant
from steady import restless

import geodesic as gd
from geodesic.errors import CheckpointError, GeodesicError, InvalidInput
from geodesic.records import checkpoint, checkpoint_path, generations, load_run
from geodesic.records.checkpoint import FORMAT
from geodesic.runs import run
from geodesic.runs.config import configure

MEMORY = 20 * 2**20  # bytes: what refusing may take


class Trap:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return (open, ("TRAPPED", "w"))


@pytest.fixture(autouse=True)
def traps(tmp_path, monkeypatch):
    """A trap that closes leaves a file behind."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "TRAPPED").exists()


@pytest.fixture(scope="module")
def task():
    return restless(steps=300)


@pytest.fixture
def folder(tmp_path, task, monkeypatch):
    """A run that was broken off after two segments, with one checkpoint."""
    monkeypatch.setattr(run, "trainer_of", lambda configs, task: Instant())
    batch = run.start([configure(task, "gradient:window=5")], [tmp_path / "run"], task)
    batch.segment = 0
    for _ in range(2):
        batch._take()
    batch.save()
    batch.release()
    generations(tmp_path / "run")[1].unlink()
    (tmp_path / "precious.csv").write_text("not to be touched")
    return tmp_path / "run"


def everything(folder):
    """Every file in the folder above, with its content; links as what they say."""
    return {
        str(path): path.readlink() if path.is_symlink() else path.read_bytes()
        for path in folder.parent.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def refused(folder, task, match=None):
    """Resuming fails with our error, and everything is as it was; how much memory that took."""
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


def rewritten(folder, arrays=None, meta=None):
    """The checkpoint with some of it changed (None: left out), and a digest that fits."""
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


def packed(folder, members, compression=zipfile.ZIP_STORED):
    """A checkpoint of these members, whatever they are, under a seal that fits."""
    with zipfile.ZipFile(checkpoint_path(folder), "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    seal(checkpoint_path(folder))


def seal(path):
    whole = path.read_bytes()[:-2] + b"\x40\0"
    path.write_bytes(whole + hashlib.blake2b(whole, digest_size=32).hexdigest().encode())


def test_the_run_itself_goes_on(folder, task):
    rewritten(folder)
    run.resume([configure(task, "gradient:window=5")], [folder], task).train()
    assert load_run(folder).finished


def test_pickles_are_not_opened(folder, task):
    objects = np.array([Trap()], dtype=object)
    for name in ("device", "curriculum/alpha", "__json__", "new"):
        packed(folder, {**members_of(folder), f"{name}.npy": npy(objects)})
        refused(folder, task, "is not a plain array of numbers or text")
    packed(folder, {**members_of(folder), "device.npy": pickle.dumps(Trap())})
    refused(folder, task, "a member is not an array")
    checkpoint_path(folder).write_bytes(pickle.dumps(Trap()))
    refused(folder, task, "it does not end with a digest")


def test_bombs_are_refused_before_they_go_off(folder, task):
    whole = members_of(folder)
    zeros = npy(np.zeros(5 * 2**25, np.uint8))  # 160 MiB
    packed(folder, {**whole, "device.npy": zeros}, zipfile.ZIP_DEFLATED)
    assert checkpoint_path(folder).stat().st_size < 2**20
    refused(folder, task, "is compressed or encrypted")


def test_sizes_that_are_only_said_are_refused(folder, task):
    whole = members_of(folder)
    for shape in ((2**40,), (2**20, 2**20), (10**18, 10**18), (0, 10**18), (-1,), (3,)):
        said = npy(np.zeros(2)).replace(b"(2,), }" + b" " * (len(str(shape)) - 4), f"{shape}, }}".encode())
        assert str(shape).encode() in said
        packed(folder, {**whole, "device.npy": said})
        refused(folder, task)


def test_members_that_lie_on_each_other_are_refused(folder, task):
    """One member's data, listed a thousand times."""
    path = checkpoint_path(folder)
    packed(folder, {**members_of(folder), "big.npy": npy(np.zeros(2**19, np.uint8))})
    whole = path.read_bytes()
    end = whole.rindex(b"PK\5\6")
    start = struct.unpack("<L", whole[end + 16 : end + 20])[0]
    entry = whole[whole.rindex(b"PK\1\2") : end]
    names = [f"{k:03}.npy".encode() for k in range(1000)]
    listed = whole[start:end] + b"".join(entry.replace(b"big.npy", name) for name in names)
    tail = whole[end : end + 8] + struct.pack("<2H2LH", 999, 999, len(listed), start, 0)
    path.write_bytes(whole[:start] + listed + tail)
    seal(path)
    refused(folder, task)


def test_an_endless_list_of_members_is_refused(folder, task):
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0) + b"a.npy"
    listed = entry * 300_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, len(listed), 0, 0)
    checkpoint_path(folder).write_bytes(listed + end)
    seal(checkpoint_path(folder))
    refused(folder, task, "more members than it should have")


STRANGE = {
    "shape": {"device": np.zeros((2, 2))},
    "type": {"device": np.zeros(2, np.float32)},
    "missing": {"device": None},
    "one more": {"evil": np.zeros(1)},
    "absolute path": {"/etc/passwd": np.zeros(1)},
    "path upwards": {"../../precious.csv": np.zeros(1)},
    "unknown field": {"curriculum/evil": np.zeros(1)},
    "text for a number": {"curriculum/alpha": np.array("x")},
    "many for one": {"curriculum/stage": np.zeros(2, int)},
    "negative stage": {"curriculum/stage": np.array(-1)},
    "alpha that is none": {"curriculum/alpha": np.array(np.nan)},
    "another kind": {"curriculum/kind": np.array("evil")},
    "another dimension": {"curriculum/distribution/points": np.zeros((3, 5)),
                          "curriculum/distribution/weights": np.full(3, 1 / 3)},
    "points that are none": {"curriculum/distribution/points": np.full((3, 2), np.nan),
                             "curriculum/distribution/weights": np.full(3, 1 / 3)},
    "weights that are none": {"curriculum/distribution/weights": np.array([-1.0])},
    "no distribution": {"curriculum/distribution/points": None},
    "waiting in another dimension": {"waiting/contexts": np.zeros((1, 7)), "waiting/returns": np.zeros(1),
                                     "waiting/lengths": np.ones(1, int), "waiting/stages": np.zeros(1, int),
                                     "waiting/successes": np.zeros(1), "waiting/began": np.zeros(1, int)},
    "waiting since never": {"waiting/began": np.zeros((2, 2))},
    "waiting for ever": {"waiting/lengths": np.array([-3]), "waiting/contexts": np.zeros((1, 2)),
                         "waiting/returns": np.zeros(1), "waiting/stages": np.zeros(1, int),
                         "waiting/successes": np.zeros(1), "waiting/began": np.zeros(1, int)},
}  # fmt: skip


@pytest.mark.parametrize("arrays", STRANGE.values(), ids=STRANGE)
def test_members_of_other_names_types_shapes_and_values_are_refused(folder, task, arrays):
    rewritten(folder, arrays)
    refused(folder, task)


def tables(**changes):
    """What a checkpoint says of the tables, with one of them changed."""
    empty = {"bytes": 0, "digest": hashlib.blake2b(digest_size=32).hexdigest()}
    return {"tables": {"episodes.csv": empty, "evaluations.csv": empty, "stages.csv": empty, **changes}}


SAID = {
    "negative counter": {"updates": -1},
    "negative segment": {"segment": -3},
    "fraction": {"segment": 1.5},
    "true": {"segment": True},
    "text": {"segment": "2"},
    "endless": {"segment": 10**30},
    "nothing": {"segment": None},
    "seat outside": {"seat": 1},
    "seat below": {"seat": -1},
    "nobody beside": {"beside": []},
    "numbers beside": {"beside": [1, 2]},
    "a crowd beside": {"beside": ["x"] * 100_001},
    "no tables": {"tables": []},
    "a table too long": tables(**{"episodes.csv": {"bytes": 10**9, "digest": ""}}),
    "a table below nothing": tables(**{"episodes.csv": {"bytes": -5, "digest": ""}}),
    "another digest": tables(**{"episodes.csv": {"bytes": 3, "digest": "0" * 64}}),
    "a digest that is none": tables(**{"episodes.csv": {"bytes": 3, "digest": 7}}),
    "stages that are none": {"stages": {"count": 0, "digest": ""}},
    "stages below nothing": {"stages": {"count": -1, "digest": ""}},
    "another run": {"config": {"task": "evil"}},
    "scores that are none": {"train_score": "good"},
}


@pytest.mark.parametrize("meta", SAID.values(), ids=SAID)
def test_counters_and_words_of_other_kinds_are_refused(folder, task, meta):
    rewritten(folder, meta=meta)
    refused(folder, task)


def test_names_of_files_are_never_taken_from_a_file(folder, task):
    nothing = {"bytes": 0, "digest": hashlib.blake2b(digest_size=32).hexdigest()}
    kept = checkpoint.load(checkpoint_path(folder))
    elsewhere = {str(folder.parent / "precious.csv"): nothing, "../precious.csv": nothing}
    rewritten(folder, meta={"tables": {**elsewhere, **kept.meta["tables"]}, "lengths": {"../precious.csv": 0}})
    run.resume([configure(task, "gradient:window=5")], [folder], task).train()
    assert (folder.parent / "precious.csv").read_text() == "not to be touched"


@pytest.mark.parametrize("name", ["episodes.csv", ".lock"])
def test_links_that_lead_out_of_the_folder_are_not_followed(folder, task, name):
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(folder.parent / "precious.csv")
    rewritten(folder, meta=tables())
    refused(folder, task)


def test_metadata_that_is_no_json_is_refused(folder, task):
    whole = members_of(folder)
    for text in (b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"format": 1}', json.dumps({"format": FORMAT}).encode()):
        packed(folder, {**whole, "__json__.npy": npy(np.frombuffer(text, np.uint8))})
        refused(folder, task)
    packed(folder, {**whole, "__json__.npy": npy(np.zeros(3))})
    refused(folder, task, "expected format")
    packed(folder, {**whole, "__json__.npy": npy(np.zeros(2**21, np.uint8))})
    refused(folder, task, "expected format")


def test_the_older_format_is_named(folder, task):
    kept = checkpoint.load(checkpoint_path(folder))
    text = json.dumps({**kept.meta, "format": "geodesic-checkpoint-1"}).encode()
    np.savez(checkpoint_path(folder), **kept.arrays, __json__=np.frombuffer(text, np.uint8))
    refused(folder, task, "it does not end with a digest; it was cut off, or is of an older format")
    seal(checkpoint_path(folder))
    refused(folder, task, f"expected format {FORMAT}, got 'geodesic-checkpoint-1'")


@pytest.mark.parametrize("file", ["curriculum.npz", "checkpoint/latest.npz", "episodes.csv", "stages.csv"])
def test_files_that_are_none_are_refused(folder, task, file):
    (folder / file).unlink()
    (folder / file).mkdir()
    refused(folder, task)
    (folder / file).rmdir()
    os.mkfifo(folder / file)  # to be opened by nobody: it would wait for ever
    with pytest.raises(CheckpointError):
        run.resume([configure(task, "gradient:window=5")], [folder], task)


def test_a_configuration_that_is_none_is_refused(folder, task):
    path = folder / "config.json"
    whole = json.loads(path.read_text())
    texts = [
        "",
        "{",
        "[]",
        "3",
        "[" * 100_000,
        *(json.dumps({k: whole[k] for k in whole if k != gone}) for gone in whole),
    ]
    wrong = [
        {**whole, name: value} for name in whole for value in (None, [3], {"x": 1}, -1, "é", True) if name in whole
    ]
    passed = 0
    for text in [*texts, *map(json.dumps, wrong)]:
        path.write_text(text)
        before = everything(folder)
        try:
            run.extend(folder, None, task).release()
        except GeodesicError:
            assert everything(folder) == before
        else:
            passed += 1
    assert passed <= 10  # such as other versions


@pytest.mark.parametrize("rounds", [300, pytest.param(1000, marks=pytest.mark.slow)])
def test_flipped_bits_are_seen(folder, task, rounds):
    """In the checkpoint, the stages and the tables: every one is an error of ours, and nothing else happens."""
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


def test_weights_that_are_not_finite_are_refused(tmp_path):
    config = configure("maze", "uniform", 0, 500)
    batch = run.start([config], [tmp_path / "run"])
    batch.release()
    path = checkpoint_path(tmp_path / "run")
    kept = checkpoint.load(path)
    name = next(name for name in kept.arrays if "kernel" in name or "params" in name)
    for bad in (np.nan, np.inf):
        poisoned = kept.arrays[name].copy()
        poisoned.flat[0] = bad
        checkpoint.save(path, {**kept.arrays, name: poisoned}, kept.meta)
        before = everything(tmp_path / "run")
        with pytest.raises(CheckpointError, match="the agent's parameters are not finite"):
            run.resume([config], [tmp_path / "run"])
        assert everything(tmp_path / "run") == before


def test_a_teachers_folder_is_looked_at_as_closely(tmp_path):
    given = {"contexts": {"size": (0.0, 1.0)}, "source": {"size": (0.8, 1.0)}, "target": {"size": (0.0, 0.1)}}
    own = gd.Task("CartPole-v1", apply=lambda env, size: None, threshold=10.0, **given)
    gd.Teacher(own, out=tmp_path / "run").close()
    path = checkpoint_path(tmp_path / "run")
    kept = checkpoint.load(path)
    shutil.copytree(tmp_path / "run", tmp_path / "good")
    for arrays, meta in (
        ({"evil": np.zeros(1)}, {}),
        ({"curriculum/stage": np.array(-1)}, {}),
        ({}, {"step": -1}),
        ({}, {"samples": "x"}),
        ({}, {"began": 1.5}),
        ({}, {"evaluated": None}),
    ):
        checkpoint.save(path, {**kept.arrays, **arrays}, {**kept.meta, **meta})
        before = everything(tmp_path / "run")
        with pytest.raises(CheckpointError):
            gd.Teacher(own, out=tmp_path / "run")
        assert everything(tmp_path / "run") == before
    assert gd.Teacher(own, out=tmp_path / "good").step == 0


@pytest.mark.parametrize("name", ["points", "weights", "offsets", "stage", "step", "alpha"])
def test_stages_that_are_none_are_refused(folder, task, name):
    path = folder / "curriculum.npz"
    with np.load(path) as archive:
        whole = dict(archive)
    n = whole[name].shape[0]
    for wrong in (None, np.float64(3), np.array("x"), whole[name][:-1], np.zeros((n, 3, 3))):
        np.savez(path, **{k: v for k, v in {**whole, name: wrong}.items() if v is not None})
        with pytest.raises(CheckpointError):
            load_run(folder)
        seal(path)
        refused(folder, task)
    np.savez(path, **{**whole, name: whole[name] + 1})
    seal(path)
    refused(folder, task)
