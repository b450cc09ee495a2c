"""Tools that need more than the model gives them: arguments that the environment fills in from the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sandlot.engine import State
from sandlot.envs.calls import maybe_await
from sandlot.envs.multiturn import ToolEnv
from sandlot.errors import Invalid
from sandlot.records import JsonObject, Messages


class StatefulToolEnv(ToolEnv):
    """A `ToolEnv` whose tools take arguments that the model does not see.

    `add_tool(tool, args_to_skip=["state"])` leaves parameters out of the schema, and `update_tool_args` fills them in
    before each call. The function itself is not changed.
    """

    def add_tool(self, tool: Callable[..., Any], args_to_skip: Sequence[str] = ()) -> None:
        """Offers one more function to the model, without the parameters named in `args_to_skip`. `Invalid` if it has
        no such parameter."""
        self.toolbox.add(tool, hidden=args_to_skip)

    async def update_tool_args(
        self, tool_name: str, tool_args: JsonObject, messages: Messages, state: State, **kwargs: Any
    ) -> JsonObject:
        """The arguments that `tool_name` is called with, made of those that the model gave."""
        return tool_args

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Any:
        """One tool message for every call, in order."""

        async def fill(name: str, arguments: JsonObject) -> JsonObject:
            filled = await maybe_await(self.update_tool_args, name, arguments, messages, state)
            if not isinstance(filled, dict):
                raise Invalid(f"update_tool_args returned a {type(filled).__name__} for {name}; a dict was expected")
            return filled

        return await self._answered(messages, fill)
