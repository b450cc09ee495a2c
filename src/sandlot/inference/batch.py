"""The sequences that are being decoded now, and the forward passes that move them on.

Invariants: the sequences in flight stand in the rows 0 to n-1 of the cache, so a step reads one contiguous block; the
rows behind them keep what was computed for finished sequences, for prompts that begin alike; nothing computed under
older weights is reused for a new prompt. Everything here runs in one thread at a time.
"""

from __future__ import annotations

import inspect
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from sandlot.inference.drawing import draw
from sandlot.inference.sampler import TokenSampling
from sandlot.inference.slots import SlotCache

_PREFILL_TOKENS = 2048
"""Most tokens, padding included, in one prefill forward: bounds the attention mask and the wait of those in flight."""
_WORTH_COPYING = 8
"""A shared beginning shorter than this is computed again: that costs less than finding room for it."""


@dataclass(slots=True, eq=False)
class Call:
    """One completion that was asked for, and what has been drawn of it so far."""

    prompt: list[int]
    sampling: TokenSampling
    limit: int
    """The most tokens it may draw: max_tokens, or what the context leaves."""
    numbers: random.Random
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    finish: str | None = None
    cancelled: bool = False
    heard: int = 0
    """How many of its tokens were reported to its listener."""

    def context(self) -> list[int]:
        """Everything that stands before the next token."""
        return self.prompt + self.tokens


@dataclass(slots=True)
class _Held:
    """What may be reused of a row: the tokens whose keys and values stand in it, and when it was last in use."""

    tokens: list[int] = field(default_factory=list)
    used: int = 0


class ContinuousBatch:
    """Sequences join and leave between two steps. `version` is stamped on every token drawn."""

    def __init__(self, module: torch.nn.Module, *, max_rows: int, room: int, version: int) -> None:
        parameter = next(module.parameters())
        self.module = module
        self.version = version
        self.waiting: deque[Call] = deque()
        self.live: list[Call] = []
        self._max_rows = max_rows
        self._device, self._dtype = parameter.device, parameter.dtype
        self._new_cache: Callable[[], SlotCache] = lambda: SlotCache(
            _config(module), dtype=parameter.dtype, device=parameter.device, room=room
        )
        self._cache = self._new_cache()
        self._held: list[_Held] = []
        """One for each row of the cache."""
        self._clock = 0
        self._cache_keyword = _cache_keyword(module)
        # Padding stands behind the sequence, where a model with learned positions may have none.
        self._last_position = (getattr(_config(module).get_text_config(), "max_position_embeddings", 0) or 1 << 30) - 1

    def step(self) -> list[Call]:
        """Admits what waits and fits, draws one token for every sequence in flight, returns those that ended."""
        self._clock += 1
        with torch.inference_mode():
            ended = self._retire()
            admitted = self._admit()
            if len(self.live) > admitted:
                self._decode(len(self.live) - admitted)
            return ended + self._retire()

    def forget(self) -> None:
        """What is in the cache was computed under weights that are gone: new prompts do not use it."""
        self._held = [_Held() for _ in self._held]

    def clear(self) -> list[Call]:
        """Drops every sequence and the cache; returns the calls that had not ended."""
        dropped = [*self.live, *self.waiting]
        self.live, self._held = [], []
        self.waiting.clear()
        self._cache = self._new_cache()
        return dropped

    def score(self, tokens: Sequence[int], temperature: float) -> list[float]:
        """The log-probability of each token but the first, given those before it."""
        scores: list[float] = []
        with torch.inference_mode():
            cache = self._new_cache()
            cache.resize(1, len(tokens))
            for start in range(0, len(tokens) - 1, _PREFILL_TOKENS // 4):
                part = list(tokens[start : min(start + _PREFILL_TOKENS // 4, len(tokens) - 1)])
                positions_1T = torch.arange(start, start + len(part), device=self._device)[None]
                logits_TV = self._forward(cache, 0, [part], positions_1T, keep=0)[0].float().div_(temperature)
                target_T = torch.tensor(tokens[start + 1 : start + 1 + len(part)], device=self._device)
                chosen_T = logits_TV.gather(1, target_T[:, None])[:, 0]
                scores += (chosen_T - torch.logsumexp(logits_TV, dim=-1)).tolist()
        return scores

    def _retire(self) -> list[Call]:
        """Takes sequences that ended or were cancelled out of the block in front; their cache stays behind it."""
        ended = []
        for row in reversed(range(len(self.live))):
            call = self.live[row]
            if call.finish is None and not call.cancelled:
                continue
            last = len(self.live) - 1
            if row != last:
                self._swap(row, last)
                self.live[row] = self.live[last]
            self.live.pop()
            ended.append(call)
        ended.reverse()
        return ended

    def _swap(self, one: int, other: int) -> None:
        if one == other:
            return
        # A live sequence may be longer than what is held of it: after `forget`, nothing is.
        lengths = [len(self._held[row].tokens) for row in (one, other)]
        lengths += [len(self.live[row].context()) for row in (one, other) if row < len(self.live)]
        self._cache.swap(one, other, min(max(lengths), self._cache.columns))
        self._held[one], self._held[other] = self._held[other], self._held[one]

    def _admit(self) -> int:
        """Prefills what waits, the same prompt once, and draws the first token of each; returns how many joined."""
        joining: list[Call] = []
        while self.waiting and len(self.live) + len(joining) < self._max_rows:
            call = self.waiting.popleft()
            if call.cancelled:
                continue
            if not self._make_room(joining, call):
                self.waiting.appendleft(call)
                break
            joining.append(call)
        if not joining:
            return 0
        alike: dict[tuple[int, ...], list[Call]] = {}
        for call in joining:
            alike.setdefault(tuple(call.context()), []).append(call)
        first = len(self.live)
        leaders = self._place_leaders(alike)
        logits_PV = self._prefill(first, leaders)
        followed = list(range(len(leaders)))
        for index, (context, calls) in enumerate(alike.items()):
            for call in calls[1:]:
                row = self._claim(call)
                self._cache.copy(first + index, row, len(context))
                self._held[row] = _Held(list(context), self._clock)
                followed.append(index)
        if len(followed) > len(leaders):
            logits_PV = logits_PV[torch.tensor(followed, device=self._device)]
        self._append(self.live[first:], logits_PV)
        return len(joining)

    def _make_room(self, joining: Sequence[Call], call: Call) -> bool:
        """Whether the cache has a row for `call` too; it grows, and changes its shape, while it may."""
        rows = len(self.live) + len(joining) + 1
        columns = max(_wanted(each) for each in [*self.live, *joining, call])
        if rows <= self._cache.rows and columns <= self._cache.columns:
            return True
        # Growing by a quarter keeps the number of copies logarithmic; where that does not fit, by what is needed.
        grown = self._cache.columns if columns <= self._cache.columns else max(columns, self._cache.columns * 5 // 4)
        columns = grown if rows <= self._cache.most_rows(grown) else columns
        most = self._cache.most_rows(columns)
        if rows > most:
            return False
        # Twice the rows that are needed: what finished stays for the next turn of the same conversation.
        self._resize(min(max(2 * rows, self._cache.rows), most, 2 * self._max_rows), columns)
        return True

    def _resize(self, rows: int, columns: int) -> None:
        self._cache.resize(rows, columns)
        kept = [held if len(held.tokens) <= columns else _Held() for held in self._held[:rows]]
        self._held = kept + [_Held() for _ in range(rows - len(kept))]

    def _place_leaders(self, alike: dict[tuple[int, ...], list[Call]]) -> list[tuple[Call, list[int], int]]:
        """Gives one call of each prompt its row, with whatever of the prompt the cache has already.

        Each with its context and the number of tokens that are in the cache. Sorted by what is left to compute, so
        that those prefilled together need little padding; `alike` is put into the same order.
        """
        found = []
        for context, calls in alike.items():
            ids = list(context)
            shared, donor = max(((_shared_length(ids, held.tokens), row) for row, held in enumerate(self._held)))
            # The last token is always computed: its logits are what the first draw needs.
            shared = min(shared, len(ids) - 1)
            found.append((shared if shared >= _WORTH_COPYING else 0, donor, ids, calls))
        found.sort(key=lambda entry: len(entry[2]) - entry[0])
        alike.clear()
        leaders: list[tuple[Call, list[int], int]] = []
        for shared, donor, ids, calls in found:
            # Rows move as others are placed, so that the donor is looked up again by what it holds.
            donor = self._row_holding(ids[:shared], donor) if shared else -1
            behind = donor >= len(self.live)
            row = self._claim(calls[0], donor if behind else None)
            if donor < 0:
                shared = 0
            elif not behind:
                self._cache.copy(donor, row, shared)
            self._held[row] = _Held(ids[:shared], self._clock)
            leaders.append((calls[0], ids, shared))
            alike[tuple(ids)] = calls
        return leaders

    def _row_holding(self, start: list[int], guess: int) -> int:
        order = [guess, *range(len(self._held))]
        return next((row for row in order if self._held[row].tokens[: len(start)] == start), -1)

    def _claim(self, call: Call, wanted: int | None = None) -> int:
        """Puts `call` into the next row of the block, with the content of row `wanted`, else of the longest unused."""
        row = len(self.live)
        if wanted is None:
            wanted = min(range(row, len(self._held)), key=lambda free: self._held[free].used)
        self._swap(row, wanted)
        self.live.append(call)
        return row

    def _prefill(self, first: int, leaders: Sequence[tuple[Call, list[int], int]]) -> torch.Tensor:
        """The logits after the last token of each leader, `[leaders, vocabulary]`."""
        logits: list[torch.Tensor] = []
        index = 0
        while index < len(leaders):
            # They are sorted by length, so the last of a batch is the longest.
            count = 1
            while index + count < len(leaders) and self._padded(leaders[index : index + count + 1]) <= _PREFILL_TOKENS:
                count += 1
            logits.append(self._prefill_rows(first + index, leaders[index : index + count]))
            index += count
        for row, (_, ids, _) in enumerate(leaders, first):
            self._held[row].tokens = list(ids)
        return torch.cat(logits)

    @staticmethod
    def _padded(leaders: Sequence[tuple[Call, list[int], int]]) -> int:
        return len(leaders) * max(len(ids) - shared for _, ids, shared in leaders)

    def _prefill_rows(self, row: int, leaders: Sequence[tuple[Call, list[int], int]]) -> torch.Tensor:
        """One forward for rows that follow each other; a single long prompt is fed in parts."""
        if len(leaders) == 1:
            _, ids, start = leaders[0]
            while len(ids) - start > _PREFILL_TOKENS:
                positions_1T = torch.arange(start, start + _PREFILL_TOKENS, device=self._device)[None]
                self._forward(self._cache, row, [ids[start : start + _PREFILL_TOKENS]], positions_1T, keep=1)
                start += _PREFILL_TOKENS
            leaders = [(leaders[0][0], ids, start)]
        width = max(len(ids) - shared for _, ids, shared in leaders)
        tokens, positions = [], []
        for _, ids, shared in leaders:
            padding = width - (len(ids) - shared)
            # Padding stands in front, so that every last token is in the last column, and is written behind the
            # sequence, where nothing reads it before the token that belongs there is written.
            tokens.append([ids[-1]] * padding + ids[shared:])
            positions.append([*range(len(ids), len(ids) + padding), *range(shared, len(ids))])
        deepest = max(max(row_positions) for row_positions in positions) + 1
        if deepest > self._cache.columns:
            self._resize(self._cache.rows, deepest)
        positions_RT = torch.tensor(positions, device=self._device)
        return self._forward(self._cache, row, tokens, positions_RT, keep=1)[:, -1]

    def _decode(self, count: int) -> None:
        """One more token for the first `count` rows."""
        deepest = max(len(call.prompt) + len(call.tokens) for call in self.live[:count])
        if deepest > self._cache.columns:
            count = self._deepen(deepest, count)
        positions_RT = torch.tensor(
            [[len(call.prompt) + len(call.tokens) - 1] for call in self.live[:count]], device=self._device
        )
        tokens = [[call.tokens[-1]] for call in self.live[:count]]
        logits_RV = self._forward(self._cache, 0, tokens, positions_RT, keep=1)[:, -1]
        for row, call in enumerate(self.live[:count]):
            held = self._held[row]
            held.used = self._clock
            if held.tokens:
                held.tokens.append(call.tokens[-1])
        self._append(self.live[:count], logits_RV)

    def _deepen(self, columns: int, count: int) -> int:
        """Makes the rows longer. Where not all fit any more, the last go back to the queue with what they have."""
        columns = columns + columns // 4
        most = self._cache.most_rows(columns)
        while len(self.live) > most:
            self.waiting.appendleft(self.live.pop())
        self._resize(min(self._cache.rows, most), columns)
        return min(count, len(self.live))

    def _append(self, calls: Sequence[Call], logits_RV: torch.Tensor) -> None:
        numbers = [call.numbers.random() for call in calls]
        tokens, logprobs = draw(logits_RV, [call.sampling for call in calls], numbers)
        for call, token, logprob in zip(calls, tokens, logprobs, strict=True):
            call.tokens.append(token)
            call.logprobs.append(logprob)
            call.versions.append(self.version)
            if token in call.sampling.stop_ids:
                call.finish = "stop"
            elif len(call.tokens) >= call.limit:
                call.finish = "length"

    def _forward(
        self, cache: SlotCache, row: int, tokens_RT: Sequence[Sequence[int]], positions_RT: torch.Tensor, *, keep: int
    ) -> torch.Tensor:
        """The module's logits `[rows, keep, vocabulary]` (every column's for `keep` 0); writes the new columns."""
        columns = int(positions_RT.max()) + 1
        cache.place(row, positions_RT, columns)
        seen_RTS = torch.arange(columns, device=self._device) <= positions_RT[:, :, None]
        mask_R1TS = torch.zeros(seen_RTS.shape, dtype=self._dtype, device=self._device)
        mask_R1TS = mask_R1TS.masked_fill_(~seen_RTS, torch.finfo(self._dtype).min)[:, None]
        training = self.module.training
        if training:
            self.module.eval()
        try:
            answer = self.module(
                input_ids=torch.tensor(tokens_RT, device=self._device),
                attention_mask=mask_R1TS,
                position_ids=positions_RT.clamp(max=self._last_position),
                use_cache=True,
                logits_to_keep=keep,
                **{self._cache_keyword: cache},
            )
        finally:
            if training:
                self.module.train()
        logits: torch.Tensor = answer.logits
        return logits


def _wanted(call: Call) -> int:
    """Columns for a call: what it has, and a first part of what it may still draw."""
    return len(call.prompt) + min(call.limit, len(call.tokens) + 256)


def _shared_length(one: list[int], other: list[int]) -> int:
    """How many tokens two sequences share from the start."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _config(module: torch.nn.Module) -> Any:
    return module.config


def _cache_keyword(module: Any) -> str:
    """The name under which the module takes a cache: transformers renamed `past_key_values` in the 5 series."""
    inner = module.get_base_model() if hasattr(module, "get_base_model") else module
    return "cache" if "cache" in inspect.signature(inner.forward).parameters else "past_key_values"


def vocabulary_size(module: Any) -> int:
    """How many ids the module has an embedding for."""
    return int(module.get_input_embeddings().num_embeddings)
