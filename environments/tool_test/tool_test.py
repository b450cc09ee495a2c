"""Call exactly the tools that are asked for, with exactly the arguments that are asked for.

Invariants: the same arguments give the same tasks on every machine; the calls are compared as sets with counts, so
their order and how many stand in one message do not matter; a call too many costs as much as a call too few, so calling
everything is worth little; a call in the wrong type (the text "3" for the number 3) is a wrong call.
"""

from __future__ import annotations

import inspect
import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import sandlot as vf

SYSTEM_PROMPT = """\
Call exactly the tools that the user asks for, with exactly the arguments that the user gives.
Do not call anything else and call nothing twice. When you have the results, answer "Done."."""

NAMES = ("ada", "bruno", "chidi", "devi", "elena", "farid", "greta", "hiro")
ITEMS = ("apples", "bread", "candles", "dates", "eggs", "flour", "ginger", "honey", "ink", "jam")


def add_numbers(first: int, second: int) -> int:
    """Adds two whole numbers.

    Args:
        first: the first number
        second: the second number
    """
    return first + second


def convert_temperature(degrees: float, to: Literal["celsius", "fahrenheit"]) -> float:
    """Converts a temperature from the one scale to the other.

    Args:
        degrees: the temperature on the other scale
        to: the scale of the result
    """
    return round((degrees - 32) * 5 / 9 if to == "celsius" else degrees * 9 / 5 + 32, 2)


def make_list(items: list[str], numbered: bool = False) -> str:
    """Writes items as a list, one a line.

    Args:
        items: what stands in the list, in order
        numbered: whether each line begins with its number instead of a dash
    """
    return "\n".join(f"{number}. {item}" if numbered else f"- {item}" for number, item in enumerate(items, start=1))


def send_message(to: str, text: str, urgent: bool = False) -> str:
    """Sends a short message to a person.

    Args:
        to: the person's name, in lower case
        text: what the message says
        urgent: whether it must be read at once
    """
    return f"sent to {to}"


TOOLS: dict[str, Callable[..., Any]] = {
    tool.__name__: tool for tool in (add_numbers, convert_temperature, make_list, send_message)
}


def load_environment(
    num_train: int = 500,
    num_eval: int = 100,
    max_calls: int = 3,
    seed: int = 0,
) -> vf.Environment:
    """Builds the environment.

    Args:
        num_train: how many training tasks there are.
        num_eval: how many held-out tasks there are; none of them is a training task.
        max_calls: the most calls that one task asks for, 1 to 4.
        seed: draws the tasks. The held-out tasks do not depend on how many training tasks there are.
    """
    if not 1 <= max_calls <= len(TOOLS):
        raise ValueError(f"max_calls is {max_calls}; it must be 1 to {len(TOOLS)}")
    held_out = draw_tasks(num_eval, max_calls=max_calls, seed=f"tool-test/eval/{seed}", without=[])
    train = draw_tasks(num_train, max_calls=max_calls, seed=f"tool-test/train/{seed}", without=held_out)
    return ToolTest(
        tools=list(TOOLS.values()),
        # One turn for each call of a model that makes one at a time, one for its last word, one to spare.
        max_turns=max_calls + 2,
        dataset=train,
        eval_dataset=held_out,
        system_prompt=SYSTEM_PROMPT,
        rubric=vf.Rubric(funcs=[right_calls, exact], weights=[1.0, 0.0]),
    )


class ToolTest(vf.ToolEnv):
    """Four small typed tools."""

    async def oracle(self, task: vf.Task) -> list[Any]:
        """All calls in one message, then the last word."""
        calls = [
            vf.ToolCall(id=f"call_{number}", name=call["name"], arguments=json.dumps(call["arguments"]))
            for number, call in enumerate(task.info["calls"], start=1)
        ]
        return [vf.AssistantMessage(content=None, tool_calls=calls), "Done."]


def right_calls(completion: list[vf.Message], info: dict[str, Any]) -> vf.Score:
    """2 × right calls / (calls made + calls asked for): 1 if exactly the asked calls were made, each once."""
    asked = Counter(canonical(call["name"], call["arguments"]) for call in info["calls"])
    made = Counter(calls_in(completion))
    right, total = (asked & made).total(), (asked + made).total()
    missing, extra = sorted((asked - made).elements()), sorted((made - asked).elements())
    wrong = [*(f"missing: {call}" for call in missing), *(f"not asked for: {call}" for call in extra)]
    return vf.Score(2 * right / total, feedback="; ".join(wrong)[:500] or "right")


def exact(completion: list[vf.Message], info: dict[str, Any]) -> float:
    """Whether exactly the asked calls were made."""
    asked = sorted(canonical(call["name"], call["arguments"]) for call in info["calls"])
    return float(asked == sorted(calls_in(completion)))


def calls_in(completion: list[vf.Message]) -> list[str]:
    """Every call that the model made, in canonical form."""
    return [
        canonical(call["function"].get("name"), call["function"].get("arguments"))
        for message in completion
        if message["role"] == "assistant"
        for call in message.get("tool_calls") or []
    ]


def canonical(name: Any, arguments: Any) -> str:
    """A call as text that is equal for equal calls: arguments in the tool's order, defaults filled in, 3.0 as 3.

    A call that the tool could not take is kept as it was written, so it equals none that was asked for.
    """
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
        bound = inspect.signature(TOOLS[name]).bind(**given)
        bound.apply_defaults()
        written = ", ".join(f"{key}={json.dumps(_number(value))}" for key, value in bound.arguments.items())
    except (KeyError, TypeError, ValueError):
        return f"{name}({arguments}) as written"
    return f"{name}({written})"


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def draw_tasks(count: int, *, max_calls: int, seed: str, without: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`count` different tasks that are not in `without`."""
    draw = random.Random(seed)
    taken = {task["question"] for task in without}
    tasks: list[dict[str, Any]] = []
    while len(tasks) < count:
        names = draw.sample(sorted(TOOLS), draw.randint(1, max_calls))
        calls = [_draw_call(name, draw) for name in names]
        question = "\n".join(f"{number}. {words}" for number, (words, _) in enumerate(calls, start=1))
        if question not in taken:
            taken.add(question)
            tasks.append({"question": question, "info": {"calls": [call for _, call in calls]}})
    return tasks


def _draw_call(name: str, draw: random.Random) -> tuple[str, dict[str, Any]]:
    """A call of the tool `name`: what the user says, and the call that is meant."""
    arguments: dict[str, Any]
    if name == "add_numbers":
        arguments = {"first": draw.randint(-99, 999), "second": draw.randint(-99, 999)}
        words = f"first {arguments['first']}, second {arguments['second']}"
    elif name == "convert_temperature":
        arguments = {"degrees": draw.randint(-400, 2000) / 10, "to": draw.choice(["celsius", "fahrenheit"])}
        words = f"degrees {arguments['degrees']}, to {arguments['to']}"
    elif name == "make_list":
        arguments = {"items": draw.sample(ITEMS, draw.randint(2, 4))}
        words = f"items {', '.join(arguments['items'])}"
        if draw.random() < 0.5:
            arguments["numbered"] = True
            words += ", numbered"
    else:
        arguments = {"to": draw.choice(NAMES), "text": f"we need {draw.choice(ITEMS)} at {draw.randint(7, 21)}:00"}
        words = f"to {arguments['to']}, text {json.dumps(arguments['text'])}"
        if draw.random() < 0.5:
            arguments["urgent"] = True
            words += ", urgent"
    return f"Call {name}: {words}.", {"name": name, "arguments": arguments}
