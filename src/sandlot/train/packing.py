"""Samples packed into rows in which a shared prompt stands, and is computed, once.

A row is a chain of blocks, a block one prompt followed by the completions of every sample that starts with it:
`[prompt][completion 1][completion 2]…`. A completion's positions go on from its prompt's, and it sees its prompt and
itself alone. Invariants: a row is never longer than its capacity; a sample is never split; no token sees another
sample's; padding sees itself only and has no loss, whatever its id; each trained token is predicted from the token
before it in its own sample. That makes loss and gradient those of every sample alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sandlot.errors import Invalid
from sandlot.train.samples import STREAMS, Sample, Streams


@dataclass(frozen=True, eq=False)
class Row:
    """Packed tokens. `streams` has every key of `STREAMS` and `source`: the place of the token that predicts it."""

    streams: Streams
    parents: tuple[int, ...]
    """For each segment, the one that it continues; -1 for none. A parent stands before its children."""

    def __len__(self) -> int:
        return len(self.streams["tokens"])


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """Rows padded to one length as tensors, and their trained tokens as flat streams of N entries."""

    tokens_BT: Tensor
    position_BT: Tensor
    attention_B1TT: Tensor
    """Added to attention scores: 0 where a token (third axis) sees another (fourth), else the least float."""
    source_N: Tensor
    """For each trained token, the flat index into B × T of the token that predicts it."""
    streams_N: dict[str, Tensor]
    """tokens, logprob, advantage, weight, version, segment; segments are distinct across rows."""

    def to(self, device: torch.device) -> MicroBatch:
        """The same on another device."""
        return MicroBatch(
            self.tokens_BT.to(device),
            self.position_BT.to(device),
            self.attention_B1TT.to(device),
            self.source_N.to(device),
            {name: stream.to(device) for name, stream in self.streams_N.items()},
        )


def pack(samples: Sequence[Sample], *, capacity: int) -> list[Row]:
    """`samples` as few rows of at most `capacity` tokens, first fit decreasing. `Invalid` if one does not fit at all.

    Samples that share a prompt (all tokens before the first trained one) share its computation.
    """
    prompts: dict[bytes, list[Sample]] = {}
    for sample in samples:
        if len(sample) > capacity:
            raise Invalid(f"a sample of {len(sample)} tokens does not fit into rows of {capacity}")
        prompts.setdefault(sample.streams["tokens"][: _prompt_length(sample)].tobytes(), []).append(sample)
    blocks: list[Row] = []
    for members in prompts.values():
        length = _prompt_length(members[0])
        sizes = [len(sample) - length for sample in members]
        blocks += [_block([members[i] for i in bin_], length) for bin_ in _first_fit(sizes, capacity - length)]
    bins = _first_fit([len(block) for block in blocks], capacity)
    return [_join([blocks[i] for i in bin_]) for bin_ in bins]


def collate(rows: Sequence[Row]) -> MicroBatch:
    """`rows` as tensors, padded to the longest."""
    width = max(len(row) for row in rows)
    padded = {
        name: torch.from_numpy(np.stack([_pad(row.streams[name], width, fill) for row in rows]))
        for name, (_, fill) in [*STREAMS.items(), ("source", (np.int64, 0))]
    }
    attention = torch.stack([_attention(row, width) for row in rows])[:, None]
    chosen = padded["mask"]
    offsets = torch.arange(len(rows))[:, None]
    padded["segment"] = padded["segment"] + offsets * (max(len(row.parents) for row in rows) + 1)
    flat = {name: padded[name][chosen] for name in ("tokens", "logprob", "advantage", "weight", "version", "segment")}
    source = (padded["source"] + offsets * width)[chosen]
    return MicroBatch(padded["tokens"], padded["position"], attention, source, flat)


def _prompt_length(sample: Sample) -> int:
    return int(sample.streams["mask"].argmax()) if sample.trained else len(sample)


def _first_fit(sizes: Sequence[int], capacity: int) -> list[list[int]]:
    """Indices into `sizes` in bins whose sizes sum to at most `capacity`; the longest first."""
    bins: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        place = next((b for b, free in enumerate(room) if free >= sizes[index]), None)
        if place is None:
            place = len(bins)
            bins.append([])
            room.append(capacity)
        bins[place].append(index)
        room[place] -= sizes[index]
    return bins


def _block(members: Sequence[Sample], length: int) -> Row:
    prompt = {name: stream[:length] for name, stream in members[0].streams.items()}
    prompt["segment"] = np.zeros(length, np.int64)
    prompt["source"] = np.arange(length) - 1
    parts = [prompt]
    start = length
    for number, sample in enumerate(members, 1):
        rest = {name: stream[length:] for name, stream in sample.streams.items()}
        count = len(sample) - length
        rest["segment"] = np.full(count, number, np.int64)
        rest["source"] = np.concatenate([[length - 1], np.arange(start, start + count - 1)])[:count]
        parts.append(rest)
        start += count
    return Row(_concatenate(parts), (-1,) + (0,) * len(members))


def _join(blocks: Sequence[Row]) -> Row:
    parts: list[Streams] = []
    parents: list[int] = []
    start = 0
    for block in blocks:
        shifted = {"segment": block.streams["segment"] + len(parents), "source": block.streams["source"] + start}
        parts.append(block.streams | shifted)
        parents += [parent if parent < 0 else parent + len(parents) for parent in block.parents]
        start += len(block)
    return Row(_concatenate(parts), tuple(parents))


def _concatenate(parts: Sequence[Streams]) -> Streams:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _pad(stream: np.ndarray, width: int, fill: float) -> np.ndarray:
    return np.pad(stream, (0, width - len(stream)), constant_values=fill)


def _attention(row: Row, width: int) -> Tensor:
    """Who sees whom: a token sees those before it in its own segment and in the segments that this one continues."""
    sees = np.eye(len(row.parents), dtype=bool)
    for segment, parent in enumerate(row.parents):
        if parent >= 0:
            sees[segment] |= sees[parent]
    segments = torch.from_numpy(row.streams["segment"])
    allowed = torch.eye(width, dtype=torch.bool)
    seen = torch.from_numpy(sees)[segments][:, segments].tril_()
    allowed[: len(row), : len(row)] = seen
    return torch.zeros(width, width).masked_fill_(~allowed, torch.finfo(torch.float32).min)
