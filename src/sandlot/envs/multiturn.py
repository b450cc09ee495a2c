"""Environments by the way they talk: many turns, one turn, tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sandlot.engine import State
from sandlot.envs.decorators import stop
from sandlot.envs.environment import Environment, called_no_tool
from sandlot.envs.toolbox import ErrorFormatter, Toolbox, message_of
from sandlot.errors import Invalid
from sandlot.records import JsonObject, Message, Messages


class MultiTurnEnv(Environment):
    """An environment that answers: subclass it and write `env_response`.

    `max_turns` is the most model calls of a rollout and `timeout_seconds` the deadline of its play; -1 and None are no
    limit. Everything else is as for `Environment`.
    """

    def __init__(self, max_turns: int = -1, timeout_seconds: float | None = None, **kwargs: Any) -> None:
        super().__init__(max_turns=max_turns, timeout_seconds=timeout_seconds, **kwargs)
        if type(self).env_response is MultiTurnEnv.env_response and type(self) is not MultiTurnEnv:
            raise Invalid(
                f"{type(self).__name__} does not say what the environment answers",
                hint="write async def env_response(self, messages, state), or use SingleTurnEnv",
            )

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Any:
        """What the environment says to the last assistant message: messages, or `(messages, state)`."""
        raise Invalid("this environment has more than one turn but no env_response")


class SingleTurnEnv(MultiTurnEnv):
    """One question, one answer."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_turns=1, **kwargs)

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Any:
        """Nothing: the rollout is over after one turn."""
        return []


class ToolEnv(MultiTurnEnv):
    """The model may call functions; it is over when it answers without calling one.

    `tools` are functions, sync or async: the schema comes from signature and docstring. `max_turns` is 10 by default.
    An error is told to the model as `error_formatter` words it, unless it is one of `stop_errors`, which end the
    rollout.
    """

    def __init__(
        self,
        tools: Sequence[Callable[..., Any]] | None = None,
        max_turns: int = 10,
        error_formatter: ErrorFormatter = str,
        stop_errors: Sequence[type[Exception]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(max_turns=max_turns, **kwargs)
        self.toolbox = Toolbox(tools or (), error_formatter=error_formatter, stop_errors=stop_errors or ())

    @property
    def tool_map(self) -> dict[str, Callable[..., Any]]:
        """The functions by name."""
        return self.toolbox.functions

    def add_tool(self, tool: Callable[..., Any]) -> None:
        """Offers one more function to the model."""
        self.toolbox.add(tool)

    def remove_tool(self, tool: Callable[..., Any] | str) -> None:
        """Takes a function away again."""
        self.toolbox.remove(tool)

    async def call_tool(self, tool_name: str, tool_args: JsonObject, tool_call_id: str, **kwargs: Any) -> Message:
        """The tool message that answers one call. What the tool raises goes through to the caller."""
        return message_of(await self.toolbox.call(tool_name, tool_args), tool_call_id)

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Any:
        """One tool message for every call, in order."""
        return await self._answered(messages)

    async def _answered(self, messages: Messages, fill: Callable[..., Any] | None = None) -> Messages:
        """The calls of the last message, by an author's own `call_tool` where there is one."""
        own = self.call_tool if type(self).call_tool is not ToolEnv.call_tool else None
        return await self.toolbox.answer(messages[-1], fill=fill, by=own)

    @stop
    async def no_tools_called(self, state: State) -> bool:
        """The model answered without calling a tool."""
        return called_no_tool(state)

    def monitor(self, state: State) -> dict[str, float]:
        """How many turns there were, how many calls, and how many of each tool."""
        calls = [
            str(call.get("function", {}).get("name"))
            for step in state["trajectory"]
            for message in step["completion"]
            for call in message.get("tool_calls") or []
        ]
        counts = {f"{name}_calls": float(calls.count(name)) for name in self.toolbox.functions}
        return {**super().monitor(state), "total_tool_calls": float(len(calls)), **counts}
