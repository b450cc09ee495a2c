"""A model behind one or more endpoints, over HTTP.

Invariants: one session for each event loop, closed with it; a key is read once from the environment, goes only to its
own endpoint's address (redirects are not followed) and is in no repr, message or record; every request has a limit in
time, and every call in tries and time.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
import urllib.request
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from weakref import WeakKeyDictionary

import aiohttp
import msgspec

from sandlot.errors import Invalid, MissingKeyError
from sandlot.models.dialects import DIALECTS
from sandlot.models.endpoint import Endpoint, Retries
from sandlot.models.limit import AdaptiveLimit
from sandlot.models.model import Completion, Model, Prior
from sandlot.models.patience import waiting
from sandlot.models.reading import MALFORMED, BrokenOff, TooLong, decoded, read_answer, reason_of
from sandlot.models.setback import Setback, broken_off, refused, too_long, unreachable, unreadable, without_choices
from sandlot.records import Message, Sampling, Tool

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CONNECT_SECONDS = 30.0


class EndpointModel(Model):
    """Calls endpoints that answer for one model, in turn.

    `environ` is where keys come from (default: the process's environment), `key` one that the caller already holds.
    `MissingKeyError` when a variable that an endpoint names is not set and the endpoint is not on this machine.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint] | Endpoint,
        *,
        environ: Mapping[str, str] | None = None,
        key: str | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        replicas = [endpoints] if isinstance(endpoints, Endpoint) else list(endpoints)
        if not replicas:
            raise Invalid("a model needs at least one endpoint")
        self.name = replicas[0].id
        self.endpoints = tuple(replicas)
        variables = os.environ if environ is None else environ
        self._targets = [_Target(endpoint, variables, key) for endpoint in replicas]
        self._turn = 0
        self._jitter = jitter
        self._sessions = _Sessions()

    def __repr__(self) -> str:
        return f"EndpointModel({self.name!r}, {[str(endpoint) for endpoint in self.endpoints]})"

    async def generate(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        sampling: Sampling,
        prior: Prior | None = None,
    ) -> Completion:
        """One completion; see `Model.generate`. `prior` is of no use to an endpoint that takes messages.

        Also raises `Error` when a message cannot be written as JSON, or not in the endpoint's dialect.
        """
        started = time.monotonic()
        tries = 0
        while True:
            target = self._next()
            body = target.dialect.request(target.endpoint, messages, tools=tools, sampling=sampling)
            result = await self._try(target, body)
            if isinstance(result, Completion):
                self.trouble = None
                return result
            tries += 1
            wait = self._wait(target.endpoint.retries, result, tries=tries, spent=time.monotonic() - started)
            if wait is None:
                if tries > 1:
                    result.error.args = (f"{result.error} (after {tries} tries)",)
                raise result.error
            self.trouble = str(result.error)
            with waiting():
                await asyncio.sleep(wait)

    def check(self, sampling: Sampling) -> None:
        """`Invalid` where an endpoint's dialect has no word for what the sampling asks for."""
        for target in self._targets:
            target.dialect.check(target.endpoint, sampling)

    async def close(self) -> None:
        """Closes the connections of the running event loop."""
        await self._sessions.close()

    def _next(self) -> _Target:
        target = self._targets[self._turn % len(self._targets)]
        self._turn += 1
        return target

    async def _try(self, target: _Target, body: bytes) -> Completion | Setback:
        with waiting():
            ticket = await target.limit.acquire()
        try:
            result = await self._exchange(target, body)
            if isinstance(result, Completion):
                target.limit.succeeded()
            elif result.throttled:
                # A pause that no call would sit out is none: each call asks once and fails with what it is told.
                patient = result.after is not None and result.after <= target.endpoint.retries.seconds
                target.limit.throttled(ticket, pause=result.after if patient else None)
            return result
        finally:
            target.limit.release()

    async def _exchange(self, target: _Target, body: bytes) -> Completion | Setback:
        endpoint, secret = target.endpoint, target.secret
        session = await self._sessions.get()
        try:
            async with session.post(
                target.url,
                data=body,
                headers=target.headers,
                timeout=target.timeout,
                proxy=target.proxy,
                allow_redirects=False,
            ) as response:
                status, headers = response.status, response.headers
                answer = await read_answer(response, target.dialect, most=endpoint.max_bytes)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            idle = isinstance(error, aiohttp.SocketTimeoutError)
            connected = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
            return unreachable(endpoint, error, answered=target.answered, idle=idle, connected=connected)
        except TooLong:
            return too_long(endpoint)
        except BrokenOff as error:
            return broken_off(endpoint, str(error))
        except MALFORMED as error:
            return unreadable(endpoint, b"", reason_of(error), secret=secret)
        target.answered = True
        if isinstance(answer, bytes) and status != 200:
            answer = target.veiled(answer)
            return refused(endpoint, status, answer, headers=headers, secret=secret, now=time.time())
        try:
            value = decoded(answer, target.dialect) if isinstance(answer, bytes) else answer
            completion = target.dialect.completion(endpoint, value)
        except BrokenOff as error:
            return broken_off(endpoint, str(error))
        except MALFORMED as error:
            shown = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
            return unreadable(endpoint, target.veiled(shown), reason_of(error), secret=secret)
        if completion is not None:
            return completion
        setback = without_choices(endpoint, value, secret=secret)
        setback.error.args = (target.veiled(str(setback.error).encode()).decode(),)
        return setback

    def _wait(self, retries: Retries, setback: Setback, *, tries: int, spent: float) -> float | None:
        most = retries.tries if setback.tries is None else min(setback.tries, retries.tries)
        if tries >= most:
            return None
        wait = self._jitter() * min(retries.longest, retries.base * 2.0 ** min(tries - 1, 30))
        if setback.after is not None:
            wait += setback.after  # The jitter stays, so that not everyone comes back in the same moment.
        return None if spent + wait > retries.seconds else wait


class _Target:
    """An endpoint made ready: its key, its limit and everything that is the same for each request."""

    def __init__(self, endpoint: Endpoint, variables: Mapping[str, str], key: str | None) -> None:
        self.endpoint = endpoint
        self.dialect = DIALECTS[endpoint.type]
        self.secret = key or _key(endpoint, variables)
        self.limit = AdaptiveLimit(endpoint.max_concurrent)
        self.answered = False
        self.url = _address(endpoint.url, self.dialect.path)
        idle = endpoint.idle_timeout if endpoint.stream else None
        self.timeout = aiohttp.ClientTimeout(total=endpoint.timeout, sock_connect=_CONNECT_SECONDS, sock_read=idle)
        self.headers = {"Content-Type": "application/json", "User-Agent": "sandlot"}
        self.headers |= self.dialect.headers(self.secret)
        self.hidden: list[bytes] = []
        """What headers took out of variables."""
        for name, value in endpoint.headers.items():
            self.headers[name] = _VARIABLE.sub(lambda match: _variable(endpoint, variables, match[1]), value)
            self.hidden += [_variable(endpoint, variables, found).encode() for found in _VARIABLE.findall(value)]
        # Looked up once: aiohttp's own way reads the environment and netrc again for each request.
        self.proxy = None if endpoint.is_local else _proxy(endpoint)

    def veiled(self, answer: bytes) -> bytes:
        """A body that will be quoted in an error, without what headers took out of variables."""
        for value in self.hidden:
            answer = answer.replace(value, b"***")
        return answer


class _Sessions:
    """A session for each event loop. It lives in an async generator, because a loop that ends closes its generators."""

    def __init__(self) -> None:
        self._lives: WeakKeyDictionary[asyncio.AbstractEventLoop, _Life] = WeakKeyDictionary()

    async def get(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        life = self._lives.get(loop)
        if life is None:
            life = self._lives[loop] = _Life()
        return life.session or await life.begin()

    async def close(self) -> None:
        life = self._lives.pop(asyncio.get_running_loop(), None)
        if life is not None:
            await life.end()


class _Life:
    def __init__(self) -> None:
        self.session: aiohttp.ClientSession | None = None
        self._generator = self._run()

    async def begin(self) -> aiohttp.ClientSession:
        self.session = await anext(self._generator)
        return self.session

    async def end(self) -> None:
        await self._generator.aclose()

    async def _run(self) -> AsyncGenerator[aiohttp.ClientSession, None]:
        # The number in flight is bounded by each endpoint's own limit, whose waiting is not part of the timeout.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        try:
            yield session
        finally:
            self.session = None
            await session.close()


def _key(endpoint: Endpoint, variables: Mapping[str, str]) -> str | None:
    if endpoint.key is None or (endpoint.is_local and not variables.get(endpoint.key)):
        return None  # A server on this machine hardly ever checks the key that its config names.
    return _variable(endpoint, variables, endpoint.key)


def _variable(endpoint: Endpoint, variables: Mapping[str, str], name: str) -> str:
    value = variables.get(name, "").strip()
    if not value:
        raise MissingKeyError(f"{endpoint} needs the variable {name}, which is not set", hint=f"export {name}=…")
    if not value.isascii() or not value.isprintable():
        raise MissingKeyError(f"the variable {name} holds characters that cannot be in a key", hint=f"export {name}=…")
    return value


def _address(url: str, path: str) -> str:
    address, mark, query = url.partition("?")
    return f"{address.rstrip('/')}{path}{mark}{query}"


def _proxy(endpoint: Endpoint) -> str | None:
    if urllib.request.proxy_bypass(endpoint.host):
        return None
    return urllib.request.getproxies().get(endpoint.url.partition(":")[0])
