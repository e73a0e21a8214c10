"""Files that hold a policy for other programs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import geodesic as gd
from geodesic import numpy_policy
from geodesic.errors import InvalidInput, MissingExtra
from geodesic.runs.export import export_policy
from known_returns import varied_returns

OBSERVATION = [0.5, 4.0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return gd.train(varied_returns(), steps=200, out=tmp_path_factory.mktemp("run")).runs[0].folder


def test_a_policy_acts_in_another_process_with_numpy_alone(folder, tmp_path):
    written = export_policy(folder, tmp_path / "there" / "policy.npz", "last")
    assert [path.name for path in written] == ["policy.npz", "numpy_policy.py"]
    assert written[1].read_bytes() == Path(numpy_policy.__file__).read_bytes()
    code = f"import sys, numpy_policy; print(int(numpy_policy.load_policy('policy.npz')({OBSERVATION})))"
    code += "; print([name for name in ('geodesic', 'jax', 'gymnasium', 'scipy') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "there", check=True, stdout=subprocess.PIPE, text=True
    )
    expected = gd.load(folder).policy(which="last")(np.array(OBSERVATION, np.float32))
    assert done.stdout.splitlines() == [str(int(expected)), "[]"]


def test_the_same_run_gives_the_same_bytes(folder, tmp_path):
    one, two = (export_policy(folder, tmp_path / name, "best")[0].read_bytes() for name in ("a.npz", "b.npz"))
    assert one == two


def test_links_are_replaced_and_not_followed(folder, tmp_path):
    (tmp_path / "precious").write_text("do not touch")
    (tmp_path / "policy.npz").symlink_to(tmp_path / "precious")
    export_policy(folder, tmp_path / "policy.npz", "best")
    assert (tmp_path / "precious").read_text() == "do not touch"
    assert numpy_policy.load_policy(tmp_path / "policy.npz").about["policy"] == "best"


@pytest.mark.parametrize(("name", "message"), [
    ("policy.pt", r"expected a file that ends with .npz, .onnx, .zip, got .*policy.pt"),
    ("policy", r"expected a file that ends with"),
    ("policy.zip", "expected a run of Stable-Baselines3 or SBX for policy.zip, got one of jax"),
])  # fmt: skip
def test_other_formats_are_refused(folder, tmp_path, name, message):
    with pytest.raises(InvalidInput, match=message):
        export_policy(folder, tmp_path / name, "best")
    assert list(tmp_path.iterdir()) == []


def test_onnx_is_an_extra(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"onnx is not installed; try: pip install 'geodesic-rl\[onnx\]'"):
        export_policy(folder, tmp_path / "policy.onnx", "best")
