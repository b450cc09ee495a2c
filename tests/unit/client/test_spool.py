"""Reading a run's events in batches of whole lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from sandlot.client.spool import BATCH_BYTES, read_batches


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=30).map(lambda line: line.replace(b"\n", b"_")), max_size=20), st.binary()
)
def test_batches_are_exactly_the_whole_lines_from_any_place_one_may_begin(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], torn: bytes
) -> None:
    file = tmp_path_factory.mktemp("run") / "events.jsonl"
    whole = b"".join(line + b"\n" for line in lines)
    file.write_bytes(whole + torn.replace(b"\n", b"_"))
    offset = 0
    for line in [b"", *(line + b"\n" for line in lines)]:
        offset += len(line)
        assert b"".join(read_batches(file, offset)) == whole[offset:]


def test_a_batch_is_of_bounded_size_and_a_line_longer_than_that_is_one_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    lines = [b"x" * (BATCH_BYTES // 3) + b"\n"] * 7 + [b"y" * (2 * BATCH_BYTES) + b"\n", b"z\n"]
    file.write_bytes(b"".join(lines))
    batches = list(read_batches(file, 0))
    assert b"".join(batches) == b"".join(lines)
    assert all(len(batch) <= BATCH_BYTES or batch.count(b"\n") == 1 for batch in batches)
    assert len(batches) == 6
