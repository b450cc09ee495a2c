"""Keys and settings of a user."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from sandlot.client import (
    forget_key,
    hub_origin,
    key_for,
    known_keys,
    read_settings,
    settings_file,
    write_key,
    write_setting,
)
from sandlot.errors import Invalid


def test_keys_are_kept_by_origin_in_a_file_that_only_the_user_can_read() -> None:
    file = write_key("https://hub.example.org/x", "slk_a")
    write_key("http://localhost:7350", "slk_b")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert key_for("https://hub.example.org") == "slk_a"
    assert key_for("https://hub.example.org:444") is None
    assert forget_key("https://hub.example.org")
    assert not forget_key("https://hub.example.org")
    assert known_keys() == {"http://localhost:7350": "slk_b"}
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_file_of_keys_that_others_could_read_is_closed_when_it_is_read() -> None:
    file = write_key("http://localhost:7350", "slk_a")
    file.chmod(0o644)
    assert key_for("http://localhost:7350") == "slk_a"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "not json", "[]", '{"http://x": 1}'])
def test_a_broken_file_of_keys_says_what_to_do(content: str) -> None:
    write_key("http://localhost:7350", "slk_a").write_text(content)
    with pytest.raises(Invalid, match="not a file of keys"):
        key_for("http://localhost:7350")


def test_the_key_of_the_environment_is_for_the_configured_hub_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDLOT_KEY", "slk_env")
    monkeypatch.setenv("SANDLOT_HUB", "https://hub.example.org")
    assert key_for("https://hub.example.org") == "slk_env"
    assert key_for("https://elsewhere.example.org") is None


def test_the_hub_is_the_one_asked_for_then_the_environment_s_then_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub_origin() == "http://127.0.0.1:7350"
    write_setting("hub", "hub.example.org")
    assert hub_origin() == "https://hub.example.org"
    monkeypatch.setenv("SANDLOT_HUB", "http://localhost:1")
    assert hub_origin() == "http://localhost:1"
    assert hub_origin("http://localhost:2") == "http://localhost:2"


def test_settings_are_written_read_and_put_back() -> None:
    assert write_setting("max_concurrent", "8").max_concurrent == 8
    assert write_setting("model", 'odd "name" \\ with = signs').model == 'odd "name" \\ with = signs'
    assert read_settings().max_concurrent == 8
    assert write_setting("max_concurrent", None).max_concurrent == 128


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("hbu", "x", "no setting 'hbu'"),
        ("max_concurrent", "many", "max_concurrent"),
        ("max_concurrent", "0", "max_concurrent"),
        ("hub", "ftp://x", "not the address"),
    ],
)
def test_a_setting_that_is_wrong_is_refused_and_nothing_is_written(name: str, value: str, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        write_setting(name, value)
    assert not settings_file().exists()


def test_a_settings_file_that_is_broken_is_named(tmp_path: Path) -> None:
    settings_file().parent.mkdir(parents=True, exist_ok=True)
    settings_file().write_text("hub = [")
    with pytest.raises(Invalid, match=r"config\.toml is not valid TOML"):
        read_settings()
    settings_file().write_text("hubb = 'x'")
    with pytest.raises(Invalid, match="hubb"):
        read_settings()
