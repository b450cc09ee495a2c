"""Serves a Hugging Face module in this process: continuous batching on the very module that is trained.

Invariants: the event loop never waits for torch, whose work runs in one worker thread; a call that is cancelled frees
its place before the next step; whatever breaks in the engine fails the calls that wait, with the cause; the version
moves only after the new weights are in place.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import torch

from sandlot.errors import Invalid, ModelError, OverlongPromptError
from sandlot.inference.batch import Call, ContinuousBatch, vocabulary_size
from sandlot.inference.drawing import check_sampling
from sandlot.inference.sampler import Sampled, Sampler, TokenSampling

T = TypeVar("T")
OnToken = Callable[[int, float], None]
"""Takes a token id and its log-probability, on the event loop, as soon as it is drawn."""


class TorchSampler(Sampler):
    """A `Sampler` over a causal language model of transformers, on the device and in the precision it has.

    While a call runs the module must not be changed from outside, except in `apply`. Up to `max_rows` sequences are
    decoded together; further calls wait. `cache_bytes` bounds the key-value cache, and with it how many sequences of
    which length are in flight; at least one always is. `context_length` is at most, and by default, the module's own.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        context_length: int | None = None,
        max_rows: int = 64,
        cache_bytes: int = 2 << 30,
        version: int = 0,
    ) -> None:
        self.module = module
        self.version = version
        self.context_length = _context_length(module, context_length)
        if max_rows < 1:
            raise Invalid(f"max_rows must be at least 1, found {max_rows}")
        self._vocabulary = vocabulary_size(module)
        self._batch = ContinuousBatch(module, max_rows=max_rows, room=cache_bytes, version=version)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="torch-sampler")
        self._arrived: list[Call] = []
        self._futures: dict[Call, asyncio.Future[Sampled]] = {}
        self._listeners: dict[Call, OnToken] = {}
        self._engine: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def generate(
        self, prompt: Sequence[int], sampling: TokenSampling, *, on_token: OnToken | None = None
    ) -> Sampled:
        """One completion of `prompt`. `on_token` hears of each token as it is drawn.

        `OverlongPromptError` if the prompt leaves no room for a token, `Invalid` for settings or ids that mean
        nothing, `ModelError` if the engine fails or is closed.
        """
        check_sampling(sampling)
        ids = self._checked(prompt)
        room = self.context_length - len(ids)
        if room < 1:
            raise OverlongPromptError(
                f"the prompt has {len(ids)} tokens, and the context of {self.context_length} leaves no room for another"
            )
        self._bind()
        call = Call(
            prompt=ids,
            sampling=sampling,
            limit=min(sampling.max_tokens, room),
            numbers=random.Random(sampling.seed),
        )
        future: asyncio.Future[Sampled] = asyncio.get_running_loop().create_future()
        self._futures[call] = future
        if on_token is not None:
            self._listeners[call] = on_token
        self._arrived.append(call)
        if self._engine is None or self._engine.done():
            self._engine = asyncio.get_running_loop().create_task(self._run(), name="torch-sampler")
        try:
            return await future
        finally:
            # Ended or cancelled: either way nobody waits for it any more.
            call.cancelled = True
            self._futures.pop(call, None)
            self._listeners.pop(call, None)

    async def score(self, tokens: Sequence[int], *, temperature: float = 1.0) -> list[float]:
        """The log-probability of each token given those before it; one fewer than there are tokens.

        `OverlongPromptError` if they are more than the context holds, `Invalid` for a temperature or ids that mean
        nothing.
        """
        if not temperature > 0:
            raise Invalid(f"temperature must be above 0 to score, found {temperature}")
        ids = self._checked(tokens)
        if len(ids) > self.context_length:
            raise OverlongPromptError(f"{len(ids)} tokens are more than the context of {self.context_length} holds")
        async with self._between_steps():
            return await self._in_worker(lambda: self._batch.score(ids, temperature))

    async def apply(self, version: int, weights: Mapping[str, Any] | None = None) -> None:
        """Waits for the forward that runs, swaps, bumps `version`. Sequences in flight go on under the new weights.

        `weights` is a state dict for the module, None where the module was changed in place. `Invalid`, with weights
        and version as they were, if it does not fit.
        """
        async with self._between_steps():
            await self._in_worker(lambda: self._swap(version, weights))
            self.version = version

    async def close(self) -> None:
        """Fails the calls that wait and gives the memory back. The sampler cannot be used afterwards."""
        if self._closed:
            return
        self._closed = True
        if self._engine is not None and self._loop is asyncio.get_running_loop():
            self._engine.cancel()
            with suppress(asyncio.CancelledError):
                await self._engine
        self._fail(ModelError("the sampler was closed"))
        await asyncio.to_thread(self._worker.shutdown)

    async def _run(self) -> None:
        """The engine: one step after the other while there is something to draw."""
        try:
            while self._arrived or self._batch.live or self._batch.waiting:
                async with self._turn:
                    arrived, self._arrived = self._arrived, []
                    self._batch.waiting.extend(arrived)
                    ended = await self._in_worker(self._batch.step)
                self._report(ended)
        except asyncio.CancelledError:
            self._fail(ModelError("the event loop that the sampler ran in has ended"))
            raise
        except Exception as error:
            # Boundary: the engine. Those who wait get the cause; the next call finds it empty and tries again.
            self._fail(error)

    def _report(self, ended: Sequence[Call]) -> None:
        """Hands out what the last step drew, tokens first, then the completions that are whole."""
        for call, listener in list(self._listeners.items()):
            for index in range(call.heard, len(call.tokens)):
                listener(call.tokens[index], call.logprobs[index])
            call.heard = len(call.tokens)
        for call in ended:
            future = self._futures.pop(call, None)
            if future is not None and not future.done():
                future.set_result(
                    Sampled(
                        tokens=call.tokens,
                        logprobs=call.logprobs,
                        versions=call.versions,
                        finish=call.finish or "length",
                    )
                )

    def _fail(self, error: Exception) -> None:
        self._batch.clear()
        self._arrived.clear()
        failed, self._futures = self._futures, {}
        for future in failed.values():
            if future.done() or future.get_loop().is_closed():
                continue
            cause = ModelError(
                str(error) if isinstance(error, ModelError) else f"the sampler failed: {type(error).__name__}: {error}"
            )
            cause.__cause__ = error
            future.set_exception(cause)

    def _swap(self, version: int, weights: Mapping[str, Any] | None) -> None:
        if weights is not None:
            # Checked before the first tensor is copied: load_state_dict copies what fits and complains afterwards.
            mine = self.module.state_dict()
            wrong = sorted(set(mine) ^ set(weights))
            wrong += sorted(name for name in set(mine) & set(weights) if mine[name].shape != weights[name].shape)
            if wrong:
                more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
                raise Invalid(f"the weights do not fit the module: {', '.join(wrong[:3])}{more} differ")
            self.module.load_state_dict(weights)
        self._batch.forget()
        self._batch.version = version

    def _checked(self, tokens: Sequence[int]) -> list[int]:
        ids = [int(token) for token in tokens]
        if not ids:
            raise Invalid("there are no tokens: a prompt has at least one")
        if min(ids) < 0 or max(ids) >= self._vocabulary:
            wrong = next(token for token in ids if not 0 <= token < self._vocabulary)
            raise Invalid(
                f"there is no token {wrong}: the model has {self._vocabulary}",
                hint="use the tokenizer that belongs to the model",
            )
        return ids

    def _bind(self) -> None:
        """Ties the sampler to the running loop. It may be used from another loop once nothing waits in the first."""
        if self._closed:
            raise ModelError("the sampler was closed")
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._engine is not None and not self._engine.done() and self._loop and not self._loop.is_closed():
            raise ModelError("the sampler is in use by another event loop")
        self._loop, self._engine, self._turn = loop, None, asyncio.Lock()

    @asynccontextmanager
    async def _between_steps(self) -> AsyncIterator[None]:
        self._bind()
        async with self._turn:
            yield

    async def _in_worker(self, work: Callable[[], T]) -> T:
        """Runs `work` in the worker thread. A cancelled caller still waits for it, so nothing is left half done."""
        future = asyncio.get_running_loop().run_in_executor(self._worker, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()
            raise


def _context_length(module: Any, wanted: int | None) -> int:
    own = int(getattr(module.config.get_text_config(), "max_position_embeddings", 0)) or wanted or 2048
    if wanted is None:
        return own
    if not 2 <= wanted <= own:
        raise Invalid(f"context_length must be between 2 and the model's {own}, found {wanted}")
    return wanted
