"""Checkpoints: arrays and JSON are read back unchanged, and damaged files are refused."""

import numpy as np
import pytest

from geodesic.errors import CheckpointError, RunFailed
from geodesic.records import checkpoint
from geodesic.records.files import write_atomically

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b/c": np.array(3), "k": np.array([1, 2], np.uint32)}


def test_arrays_and_json_are_read_back_unchanged(tmp_path):
    path = tmp_path / "deep" / "one.npz"
    checkpoint.save(path, ARRAYS, {"step": 5, "nested": {"x": [1.5, None]}})
    found = checkpoint.load(path)
    arrays, meta = found.arrays, found.meta
    assert meta == {"step": 5, "nested": {"x": [1.5, None]}}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        checkpoint.save(tmp_path / name, ARRAYS, {"step": 5})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_trees_are_read_back_and_other_shapes_refused(tmp_path):
    tree = {"w": [np.ones((2, 3), np.float32), np.zeros(2, np.int32)], "k": np.array([1], np.uint32)}
    arrays = checkpoint.flatten("t", tree)
    back = checkpoint.unflatten("t", tree, arrays)
    np.testing.assert_array_equal(back["w"][0], tree["w"][0])
    other = {"w": [np.ones((2, 4), np.float32), np.zeros(2, np.int32)], "k": np.array([1], np.uint32)}
    with pytest.raises(CheckpointError, match=r"expected t\['w'\]\[0\] as float32\(2, 4\), got float32\(2, 3\)"):
        checkpoint.unflatten("t", other, arrays)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "foreign"])
def test_damaged_files_are_refused(tmp_path, damage):
    path = tmp_path / "one.npz"
    checkpoint.save(path, {"a": np.random.default_rng(0).random(5000)}, {})
    whole = path.read_bytes()
    if damage == "foreign":
        np.savez(path, a=np.zeros(3))
    else:
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
        path.write_bytes({"cut": whole[:middle], "flipped": flipped, "empty": b"", "text": b"hello"}[damage])
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"(damaged|foreign) .*one.npz: "):
        checkpoint.load(path)
    assert path.read_bytes() == before


def test_a_failed_write_leaves_the_old_file_only(tmp_path):
    path = tmp_path / "one.npz"
    checkpoint.save(path, ARRAYS, {})
    before = path.read_bytes()

    def fail(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(RunFailed, match="No space left on device"):
        write_atomically(path, fail)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_checkpoint_is_refused_with_its_path(tmp_path):
    with pytest.raises(CheckpointError, match="expected a checkpoint at .*, found none"):
        checkpoint.load(tmp_path / "nothing.npz")


def test_a_missing_leaf_is_refused_with_its_name():
    with pytest.raises(CheckpointError, match=r"expected t\['w'\] as float32\(2,\), got nothing"):
        checkpoint.unflatten("t", {"w": np.zeros(2, np.float32)}, {})


META = {"count": 3, "number": 1, "flag": True, "name": "a", "names": ["a", "b"], "inner": {"count": 2}}


def test_values_are_read_with_their_type(tmp_path):
    checkpoint.save(tmp_path / "one.npz", {}, META)
    found = checkpoint.load(tmp_path / "one.npz")
    assert (found.count("count"), found.count("inner", "count")) == (3, 2)
    assert (found.number("number"), found.string("name"), found.strings("names")) == (1.0, "a", ["a", "b"])


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda found: found.count("flag"), "is damaged: expected flag as a count, got True"),
        (lambda found: found.number("name"), "is damaged: expected name as a number, got 'a'"),
        (lambda found: found.string("inner", "count"), "is damaged: expected inner/count as a string, got 2"),
        (lambda found: found.strings("name"), "is damaged: expected name as strings, got 'a'"),
        (lambda found: found.count("name", "deeper"), "is of another version: it has no 'deeper'"),
    ],
)
def test_values_of_another_type_are_refused(tmp_path, read, message):
    checkpoint.save(tmp_path / "one.npz", {}, META)
    with pytest.raises(CheckpointError) as caught:
        read(checkpoint.load(tmp_path / "one.npz"))
    assert str(caught.value) == f"{tmp_path / 'one.npz'} {message}"


def test_the_existing_file_is_kept_under_another_name(tmp_path):
    latest, previous = tmp_path / "latest.npz", tmp_path / "previous.npz"
    for step in (1, 2, 3):
        checkpoint.save(latest, ARRAYS, {"step": step}, keep=previous)
    assert [checkpoint.load(path).count("step") for path in (latest, previous)] == [3, 2]
