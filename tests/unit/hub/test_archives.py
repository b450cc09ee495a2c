"""Reading archives without trusting them."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st
from tests.unit.hub.artefacts import sdist_bytes, tar_bytes, with_record, zip_bytes

from sandlot.errors import Invalid
from sandlot.hub.packages.archives import Limits, read_wheel, sdist_entries, wheel_entries
from sandlot.hub.packages.browse import list_source, read_source
from sandlot.ids import content_digest

LIMITS = Limits(unpacked_bytes=10_000_000, entries=100)
INFO = "a-1.dist-info"
WHEEL = "a-1-py3-none-any.whl"
METADATA = {f"{INFO}/METADATA": b"Name: a\nVersion: 1\n", f"{INFO}/WHEEL": b"Wheel-Version: 1.0\n"}

names = st.text(st.characters(codec="utf-8", exclude_characters="/\\:\x00\n\r", exclude_categories=["Cc"]), min_size=1)
paths = st.lists(names.filter(lambda name: name not in (".", "..")), min_size=1, max_size=3).map("/".join)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(paths.filter(lambda path: ".dist-info" not in path), st.binary(max_size=200), max_size=5))
def test_the_digest_of_a_wheel_is_the_content_digest_of_its_entries(files: dict[str, bytes]) -> None:
    entries = with_record({**files, **METADATA}, INFO)
    contents = read_wheel(io.BytesIO(zip_bytes(entries)), WHEEL, dist_info=INFO, limits=LIMITS)
    assert contents.digest == content_digest(entries.items())
    assert contents.metadata == METADATA[f"{INFO}/METADATA"]


def outcome(read: Callable[[], object]) -> str:
    try:
        read()
    except Invalid as refused:
        return refused.code
    return "read"


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 2**31))
def test_damaged_archives_are_refused_or_read_but_never_crash(noise: bytes, seed: int) -> None:
    wheel, sdist = bytearray(zip_bytes(with_record(METADATA, INFO))), bytearray(sdist_bytes("a", "1"))
    for content in (wheel, sdist):
        start = seed % len(content)
        content[start : start + len(noise)] = noise
    for read in (
        lambda: read_wheel(io.BytesIO(bytes(wheel)), WHEEL, dist_info=INFO, limits=LIMITS),
        lambda: [entry.bytes() for entry in sdist_entries(io.BytesIO(bytes(sdist)), "a-1.tar.gz", limits=LIMITS)],
    ):
        assert outcome(read) in ("read", "wheel_malformed", "sdist_malformed", "archive_unsafe", "archive_bomb")


def tar_with(*members: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            archive.addfile(member)
    return gzip.compress(buffer.getvalue())


def member(name: str, kind: bytes, *, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "content",
    [
        tar_with(member("a-1/out", tarfile.SYMTYPE, link="/tmp/out"), member("a-1/out/x.txt", tarfile.REGTYPE)),
        tar_with(member("a-1/hard", tarfile.LNKTYPE, link="/etc/passwd")),
        tar_with(member("a-1/device", tarfile.CHRTYPE)),
        tar_with(member("a-1/pipe", tarfile.FIFOTYPE)),
        tar_with(member("../evil.py", tarfile.REGTYPE)),
        tar_with(member("a-1//evil.py", tarfile.REGTYPE)),
        tar_with(member("a-1/./evil.py", tarfile.REGTYPE)),
    ],
    ids=["symlink", "hard link", "device", "pipe", "climbs", "empty part", "dot part"],
)
def test_HUB_15_a_member_that_is_no_plain_file_inside_refuses_the_archive(content: bytes) -> None:
    with pytest.raises(Invalid) as caught:
        list(sdist_entries(io.BytesIO(content), "a-1.tar.gz", limits=LIMITS))
    assert caught.value.code == "archive_unsafe"


def test_a_symlink_in_a_wheel_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("link.py")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(Invalid) as caught:
        wheel_entries(buffer, WHEEL, limits=LIMITS)
    assert caught.value.code == "archive_unsafe"


def test_an_entry_that_stands_twice_in_a_wheel_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.py", "x = 1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.py", "x = 2")
    with pytest.raises(Invalid) as caught:
        wheel_entries(buffer, WHEEL, limits=LIMITS)
    assert "twice" in caught.value.message


@pytest.mark.parametrize("limits", [Limits(unpacked_bytes=1000, entries=100), Limits(unpacked_bytes=10**9, entries=2)])
def test_no_more_is_read_than_the_limits_allow(limits: Limits) -> None:
    files = {f"a-1/{n}": bytes(range(256)) * 4 for n in range(5)}
    for read in (
        lambda: wheel_entries(io.BytesIO(zip_bytes(files)), WHEEL, limits=limits),
        lambda: list(sdist_entries(io.BytesIO(tar_bytes(files)), "a-1.tar.gz", limits=limits)),
    ):
        with pytest.raises(Invalid) as caught:
            read()
        assert caught.value.code == "archive_bomb"


def test_a_source_tree_is_listed_without_its_top_folder_and_read_as_text() -> None:
    files = {"README.md": b"# hi\n", "data/x.bin": b"\x00\xff", "long.txt": "ä".encode() * 600_000}
    content = tar_bytes({f"a-1/{path}": data for path, data in files.items()})
    listed = list_source(io.BytesIO(content), "a-1.tar.gz", limits=LIMITS)
    assert [(entry.path, entry.size) for entry in listed] == [(path, len(files[path])) for path in sorted(files)]

    def read(path: str) -> tuple[str, bool, bool]:
        found = read_source(io.BytesIO(content), "a-1.tar.gz", path=path, limits=LIMITS)
        return found.text, found.binary, found.truncated

    assert read("README.md") == ("# hi\n", False, False)
    assert read("data/x.bin") == ("", True, False)
    text, _, truncated = read("long.txt")
    assert truncated
    assert set(text) == {"ä"}
    with pytest.raises(Exception, match="no file"):
        read("../README.md")
