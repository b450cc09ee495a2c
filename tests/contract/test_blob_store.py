"""Every blob store keeps what the port promises."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from sandlot.errors import Invalid, NotFound
from sandlot.hub.blobs import Blob, BlobStore, FileStore
from sandlot.ids import sha256_hex


@pytest.fixture(params=[FileStore])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    made: BlobStore = request.param(tmp_path / "blobs")
    return made


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.binary(max_size=50), max_size=6), data=st.data())
def test_bytes_come_back_whole_and_in_part(store: BlobStore, *, pieces: list[bytes], data: st.DataObject) -> None:
    content = b"".join(pieces)
    blob = store.put(iter(pieces))
    assert blob == Blob(sha256_hex(content), len(content))
    assert store.has(blob.sha256)
    assert store.size(blob.sha256) == len(content)
    start = data.draw(st.integers(0, len(content) + 2))
    length = data.draw(st.none() | st.integers(0, len(content) + 2))
    end = None if length is None else start + length
    assert store.bytes(blob.sha256, start=start, length=length) == content[start:end]
    with store.open(blob.sha256) as file:
        assert file.read() == content


@pytest.mark.parametrize(
    ("content", "code"), [(b"abd", "digest_mismatch"), (b"ab", "size_mismatch"), (b"abcd", "size_mismatch")]
)
def test_bytes_that_are_not_as_expected_are_not_stored(store: BlobStore, *, content: bytes, code: str) -> None:
    with pytest.raises(Invalid) as caught:
        store.put([content], expect=Blob(sha256_hex(b"abc"), 3))
    assert caught.value.code == code
    assert not store.has(sha256_hex(content))
    assert not store.has(sha256_hex(b"abc"))


def test_more_than_the_limit_is_not_stored(store: BlobStore) -> None:
    with pytest.raises(Invalid) as caught:
        store.put([b"abc", b"def"], limit=5)
    assert caught.value.code == "too_large"


def test_a_writer_that_breaks_off_leaves_nothing(store: BlobStore, tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"abc"
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        store.put(broken())
    assert not store.has(sha256_hex(b"abc"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_a_killed_writer_left_is_gone_after_a_day_and_what_is_written_now_stays(tmp_path: Path) -> None:
    FileStore(tmp_path)
    old, new = tmp_path / "incoming" / "old", tmp_path / "incoming" / "new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    FileStore(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


def test_what_is_not_there_is_not_found_at_once(store: BlobStore) -> None:
    for ask in (store.size, store.open, store.read):
        with pytest.raises(NotFound):
            ask("0" * 64)


def test_many_writers_of_the_same_bytes_end_in_one_blob(store: BlobStore) -> None:
    content = b"x" * 300_000
    writers = [threading.Thread(target=store.put, args=([content],)) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert store.bytes(sha256_hex(content)) == content
