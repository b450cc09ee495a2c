"""Conversations as token ids, and sampled ids as messages, by the model's own tokenizer and chat template.

Invariants: a prompt has the begin token exactly as often as its template writes it; text is never stripped or
altered; a conversation is continued from the ids on record only where those are, to the character, the beginning of
what the template makes of it now; what the template would lose of a conversation with tools is refused by name.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sandlot.errors import Invalid
from sandlot.models import Prior
from sandlot.records import AssistantMessage, JsonObject, Message, Tool, ToolCall, text_of

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_REMEMBERED = 20_000
_PROBE_TOOL = Tool(name="probe_tool", description="probe_description", parameters={"type": "object", "properties": {}})
_PROBE: list[JsonObject] = [
    {"role": "user", "content": "probe_question"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "probe_call",
                "type": "function",
                "function": {"name": "probe_name", "arguments": {"probe_key": "probe_value"}},
            }
        ],
    },
    {"role": "tool", "content": "probe_result", "tool_call_id": "probe_call", "name": "probe_name"},
]
_KEPT = {
    "the definitions of the tools": "probe_tool",
    "the names of called tools": "probe_name",
    "the arguments of calls": "probe_value",
    "the results of calls": "probe_result",
}
"""What a template must write of a conversation with tools, and the word of the probe that shows it."""


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt as tokens. `continues`: `ids` is only what follows the prior; False: it is the whole prompt."""

    ids: list[int]
    continues: bool
    length: int
    """Tokens of the whole prompt, the prior's included."""


class ChatTokens:
    """A tokenizer with a chat template. Safe to use from many threads.

    `end_ids` are the ids that end a turn; default: the tokenizer's end-of-sequence token. `Invalid` for a tokenizer
    without a chat template or without an end.
    """

    def __init__(self, tokenizer: Any, *, end_ids: Iterable[int] = ()) -> None:
        self._tokenizer = tokenizer
        # A fast tokenizer that two threads use at once can fail with "Already borrowed".
        self._lock = threading.Lock()
        own = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
        self.end_ids: tuple[int, ...] = tuple(dict.fromkeys([*own, *end_ids]))
        self._as_written: OrderedDict[str, str] = OrderedDict()
        self._pieces: dict[int, str] = {}
        self._lost: list[str] | None = None
        if not tokenizer.chat_template:
            raise Invalid(
                "the tokenizer has no chat template, so there is no way to put messages to the model",
                hint="use an instruction-tuned model, or put a chat_template.jinja beside its tokenizer",
            )
        if not self.end_ids:
            raise Invalid("the tokenizer has no end-of-sequence token, so no completion would ever end")

    def render(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        """The whole prompt for the model's next turn. `Invalid` if the template refuses it, or would lose of it."""
        return self.encode(self.text(messages, tools))

    def extend(self, prior: Prior, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Rendered:
        """The prompt for the next turn as what follows `prior`, or whole where it does not begin with the prior's ids.

        Nothing that is on record is tokenised again. A template that rewrites earlier turns (drops reasoning, trims
        text) gives a whole prompt: a fork, which the caller counts.
        """
        text = self.text(messages, tools)
        known = list(prior.ids)
        before = self.decode(known)
        if text.startswith(before):
            suffix = self.encode(text[len(before) :])
            # A tokenizer that writes a space before every text, for example, does not give the rest of the text here.
            if suffix and self.decode(known + suffix) == text:
                return Rendered(ids=suffix, continues=True, length=len(known) + len(suffix))
        ids = self.encode(text)
        return Rendered(ids=ids, continues=False, length=len(ids))

    def text(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
        """What the template writes of `messages`, up to where the model's turn begins."""
        if tools or any(message.get("tool_calls") or message.get("role") == "tool" for message in messages):
            self.require_tools()
        return self._apply([self._plain(message) for message in messages], [_declared(tool) for tool in tools])

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, with nothing added."""
        with self._lock:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def encode_prompt(self, text: str) -> list[int]:
        """The ids of a text that is a prompt by itself: with a begin token if the tokenizer wants one, never two."""
        begin = self._tokenizer.bos_token
        with self._lock:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=not (begin and text.startswith(begin)))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens included."""
        with self._lock:
            text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id reads as by itself, for people to look at: bytes that are no whole character show as U+FFFD."""
        for token in ids:
            if token not in self._pieces:
                self._pieces[token] = self.decode([token])
        return [self._pieces[token] for token in ids]

    def said(self, ids: Sequence[int]) -> str:
        """The text of a sampled turn: without the token that ended it, otherwise as it is."""
        return self.decode(ids[:-1] if ids and ids[-1] in self.end_ids else ids)

    def message(self, text: str, *, tools: Sequence[Tool] = (), call_prefix: str = "call") -> AssistantMessage:
        """What the model said as a message. With `tools`, its `<tool_call>` blocks are calls, in order.

        A block that is not the JSON of a call goes on as a call whose arguments are the text as written, so that the
        environment answers it with an error. What was written is remembered, and rendered again to the character.
        """
        if not tools or "<tool_call>" not in text:
            return AssistantMessage(content=text)
        content = _CALL.sub("", text)
        message = AssistantMessage(
            content=content if content.strip() else "",
            tool_calls=[_call(body, f"{call_prefix}-{index}") for index, body in enumerate(_CALL.findall(text))],
        )
        with self._lock:
            self._as_written[_key(message)] = text
            if len(self._as_written) > _REMEMBERED:
                self._as_written.popitem(last=False)
        return message

    def require_tools(self) -> None:
        """`Invalid`, naming what is lost, if the template cannot carry a conversation with tools."""
        if self._lost is None:
            try:
                text = self._apply(_PROBE, [_declared(_PROBE_TOOL)])
            except Invalid as error:
                raise Invalid(f"the chat template takes no tools: {error.message}", hint=_TOOLS_HINT) from error
            self._lost = [what for what, word in _KEPT.items() if word not in text]
        if self._lost:
            raise Invalid(
                f"the chat template of this model silently drops {', '.join(self._lost)}: the model would see another "
                "conversation than the one on record",
                hint=_TOOLS_HINT,
            )

    def _apply(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> str:
        try:
            with self._lock:
                text: str = self._tokenizer.apply_chat_template(
                    list(messages), tools=list(tools) or None, tokenize=False, add_generation_prompt=True
                )
        except Exception as error:
            # Boundary: the template, a program that came with the model and may raise anything.
            roles = ", ".join(str(message.get("role")) for message in messages)
            raise Invalid(f"the chat template refuses these messages ({roles}): {error}") from error
        return text

    def _plain(self, message: Message) -> JsonObject:
        """`message` as templates expect it: text content, arguments as objects, an answer of the model as written."""
        content = message.get("content")
        if isinstance(content, list):
            other = {str(part.get("type")) for part in content if isinstance(part, Mapping)} - {"text"}
            if other:
                raise Invalid(
                    f"the model takes text only; a {message.get('role')} message has {', '.join(sorted(other))}"
                )
        plain = {name: value for name, value in message.items() if value is not None}
        plain["content"] = text_of(content)
        calls = message.get("tool_calls")
        if not calls:
            plain.pop("tool_calls", None)
            return plain
        with self._lock:
            written = self._as_written.get(_key(message))
        if written is not None:
            return {"role": "assistant", "content": written}
        plain["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _arguments(call["function"].get("arguments"))}}
            for call in calls
        ]
        return plain


_TOOLS_HINT = "use a model whose template knows tools (such as Qwen), or an environment without tools"


def _declared(tool: Tool) -> JsonObject:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def _call(body: str, identifier: str) -> ToolCall:
    try:
        call = json.loads(body)
    except ValueError:
        call = None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return ToolCall(id=identifier, name="", arguments=body.strip())
    arguments = call.get("arguments", {})
    return ToolCall(
        id=identifier,
        name=call["name"],
        arguments=arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
    )


def _arguments(arguments: Any) -> Any:
    """Arguments as the object that templates write as JSON; text that is no object stays text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


def _key(message: Message) -> str:
    calls = [
        [call["function"].get("name"), call["function"].get("arguments"), call.get("id")]
        for call in message["tool_calls"]
    ]
    return json.dumps([message.get("content") or "", calls])
