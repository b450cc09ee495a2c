"""The keys and values of many sequences, one row each, written in place.

Invariants: column c of a row holds the token at position c; a forward writes only the columns it computes and reads
only up to the longest row, so nothing is copied while sequences grow within the capacity; what stands beyond a row's
length is finite, because attention multiplies it by a weight of zero.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import Cache, PreTrainedConfig

from sandlot.errors import Invalid

_COLUMNS = 64
"""Capacity grows in multiples of this many columns."""


class SlotCache(Cache):
    """The cache that the module writes to: one tensor `[2, layers, rows, heads, columns, head_dim]`, keys then values.

    `room` is how many bytes it may take. A single sequence is always given what it needs.
    """

    def __init__(self, config: PreTrainedConfig, *, dtype: torch.dtype, device: torch.device, room: int) -> None:
        super().__init__(layers=[])
        text: Any = config.get_text_config()
        _refuse_other_layers(text)
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        self._shape = (2, int(text.num_hidden_layers), 0, int(heads), 0, int(width))
        self._room = room
        self._store = torch.zeros(self._shape, dtype=dtype, device=device)
        self._rows_RT = torch.zeros((0, 0), dtype=torch.long, device=device)
        self._positions_RT = self._rows_RT
        self._views: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]] = []

    @property
    def rows(self) -> int:
        """How many sequences there is space for."""
        return self._store.shape[2]

    @property
    def columns(self) -> int:
        """How many tokens of each there is space for."""
        return self._store.shape[4]

    def most_rows(self, columns: int) -> int:
        """How many rows of `columns` tokens fit the room; at least one."""
        kinds, layers, _, heads, _, width = self._shape
        of_a_row = kinds * layers * heads * width * self._store.element_size() * _rounded(columns)
        return max(1, self._room // of_a_row)

    def resize(self, rows: int, columns: int) -> None:
        """Makes the capacity `rows` by `columns`, rounded up; what fits of the content stays where it is."""
        old = self._store
        kinds, layers, _, heads, _, width = self._shape
        shape = (kinds, layers, rows, heads, _rounded(columns), width)
        self._store = torch.zeros(shape, dtype=old.dtype, device=old.device)
        kept_rows, kept_columns = min(rows, old.shape[2]), min(self.columns, old.shape[4])
        self._store[:, :, :kept_rows, :, :kept_columns] = old[:, :, :kept_rows, :, :kept_columns]
        self._views = []

    def copy(self, source: int, target: int, length: int) -> None:
        """Makes the first `length` columns of row `target` those of row `source`."""
        self._store[:, :, target, :, :length] = self._store[:, :, source, :, :length]

    def swap(self, one: int, other: int, length: int) -> None:
        """Exchanges the first `length` columns of two rows."""
        kept = self._store[:, :, one, :, :length].clone()
        self._store[:, :, one, :, :length] = self._store[:, :, other, :, :length]
        self._store[:, :, other, :, :length] = kept

    def place(self, first_row: int, positions_RT: torch.Tensor, columns: int) -> None:
        """Sets where the next forward writes, rows from `first_row` on at `positions_RT`, and how far it reads."""
        count = positions_RT.shape[0]
        last = first_row + count
        self._rows_RT = torch.arange(count, device=positions_RT.device)[:, None]
        self._positions_RT = positions_RT
        # Slicing five dimensions in Python costs more than a small matrix product, so it is done once for a forward.
        self._views = [
            (keys, values, keys[:, :, :columns], values[:, :, :columns])
            for keys, values in zip(
                self._store[0, :, first_row:last].unbind(0), self._store[1, :, first_row:last].unbind(0), strict=True
            )
        ]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Called by each attention layer of the module with the new keys and values, `[rows, heads, new, head_dim]`."""
        keys, values, seen_keys, seen_values = self._views[layer_idx]
        keys[self._rows_RT, :, self._positions_RT] = key_states.transpose(1, 2)
        values[self._rows_RT, :, self._positions_RT] = value_states.transpose(1, 2)
        return seen_keys, seen_values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Never read: the engine gives positions and mask itself."""
        return 0


def _rounded(columns: int) -> int:
    return -(-columns // _COLUMNS) * _COLUMNS


def _refuse_other_layers(text: Any) -> None:
    kinds = set(getattr(text, "layer_types", None) or ()) - {"full_attention"}
    if getattr(text, "sliding_window", None) and getattr(text, "use_sliding_window", True):
        kinds.add("sliding_attention")
    if kinds:
        raise Invalid(
            f"a {text.model_type} model has {', '.join(sorted(kinds))} layers; the torch sampler serves models whose "
            "every layer attends to the whole sequence",
            hint="use a Llama, Qwen2, Qwen3 or SmolLM model, or serve this one with another server and its URL",
        )
