"""The wheel of sandlot that a hub serves."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.unit.hub.artefacts import wheel_entries, zip_bytes
from tests.unit.hub.site import published, site

from sandlot.errors import Invalid, NotFound
from sandlot.hub import Settings, open_hub
from sandlot.hub.packages.archives import Limits, read_wheel
from sandlot.hub.packages.sdk import installed_wheel

LIMITS = Limits(unpacked_bytes=10**9, entries=10_000)
JSON = {"accept": "application/vnd.pypi.simple.v1+json"}


def test_the_running_sandlot_is_packed_whole_and_always_the_same(tmp_path: Path) -> None:
    name, content = installed_wheel("sandlot")
    assert installed_wheel("sandlot") == (name, content)
    dist_info = "-".join(name.split("-")[:2]) + ".dist-info"
    read_wheel(io.BytesIO(content), name, dist_info=dist_info, limits=LIMITS)
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert {"sandlot/__init__.py", "sandlot/py.typed", "sandlot/hub/packages/well_known.txt"} <= set(names)
    assert f"{dist_info}/entry_points.txt" in names
    assert not [path for path in names if "__pycache__" in path or path.endswith(("direct_url.json", ".pth"))]


def test_a_wheel_that_was_made_of_an_installation_makes_the_same_wheel_again(tmp_path: Path) -> None:
    name, content = installed_wheel("sandlot")
    (tmp_path / name).write_bytes(content)
    target = tmp_path / "site"
    command = [sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--offline", "--no-cache"]
    subprocess.run([*command, "--target", str(target), str(tmp_path / name)], check=True, capture_output=True)
    code = (
        "import sys; from sandlot.hub.packages.sdk import installed_wheel; "
        "sys.stdout.buffer.write(installed_wheel('sandlot')[1])"
    )
    again = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(target)}, cwd=tmp_path, check=True, capture_output=True
    )
    assert again.stdout == content


def test_a_distribution_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no-such-thing"):
        installed_wheel("no-such-thing")


def test_wheels_named_in_the_settings_are_served_and_the_newest_is_printed(tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("0.9.0", "0.10.0"):
        wheel = zip_bytes(wheel_entries("sandlot", version))
        (folder / f"sandlot-{version}-py3-none-any.whl").write_bytes(wheel)
    with site(tmp_path / "hub", sdk_wheel=folder) as hub:
        ada = hub.user("ada")
        files = hub.anybody().get("/ada/simple/sandlot/", headers=JSON).json()["files"]
        assert [file["filename"] for file in files] == [
            "sandlot-0.9.0-py3-none-any.whl",
            "sandlot-0.10.0-py3-none-any.whl",
        ]
        published(ada, "0.1.0")
        install = ada.get("/api/v1/packages/ada/gsm-env").json()["latest"]["install"]
        assert "sandlot-0.10.0" in install["sdk_requirement"]


@pytest.mark.parametrize(("content", "error"), [(None, NotFound), (b"hello", Invalid)])
def test_a_setting_that_names_no_wheel_is_refused_at_start(
    tmp_path: Path, *, content: bytes | None, error: type[Exception]
) -> None:
    wheel = tmp_path / "sandlot-1.0-py3-none-any.whl"
    if content is not None:
        wheel.write_bytes(content)
    hub = open_hub(Settings(data_dir=tmp_path / "hub", sdk_wheel=wheel))
    with pytest.raises(error, match="sandlot"):
        hub.serve_sdk()
    hub.close()
