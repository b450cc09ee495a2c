"""The integration case about rows to fine-tune on."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.shell import new_shell, write_package
from tests.tiny import make_tiny_tokenizer
from transformers import AutoTokenizer

from sandlot.inference import ChatTokens
from sandlot.records import Tool, as_messages, conversation
from sandlot.store import RunFolder
from sandlot.testing import MockServer

ADDER = '''
import sandlot as sl

def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: one
        b: the other
    """
    return a + b

def right(completion, answer):
    return float(completion[-1]["content"] == answer)

def load_environment():
    rows = [{"question": f"{n} + 1", "answer": str(n + 1)} for n in range(3)]
    return sl.ToolEnv(dataset=rows, tools=[add], rubric=sl.Rubric(funcs=[right]), system_prompt="Use the tool.")
'''


def answer(messages):
    if messages[-1]["role"] == "tool":
        return messages[-1]["content"]
    call = {"name": "add", "arguments": json.dumps({"a": int(messages[-1]["content"].split()[0]), "b": 1})}
    return {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": call}]}


def test_INT_09_rows_to_fine_tune_on_have_the_tools_that_the_model_saw_and_render_to_the_same_tokens(
    tmp_path: Path,
) -> None:
    shell = new_shell(tmp_path / "shell")
    write_package(shell.folder / "environments/adder", "adder", ADDER, version="0.4.2")
    with MockServer(answer) as server:
        done = shell("eval", "adder", "-m", "mock", "-b", server.url, "-n", "3", "-r", "1", "--json").ok()
        asked = list(server.requests)
    folder = shell.folder / done.record["runs"][0]["folder"]
    shell("run", "export", str(folder), "--sft", "-o", "rows.jsonl").ok()
    rows = {row["task_id"]: row for row in map(json.loads, (shell.folder / "rows.jsonl").read_text().splitlines())}
    tokens = ChatTokens(AutoTokenizer.from_pretrained(make_tiny_tokenizer(tmp_path / "tokenizer")))
    with RunFolder.open(folder) as opened:
        rollouts = list(opened.rollouts())
    assert len(rows) == len(rollouts) == 3
    for rollout in rollouts:
        row = rows[rollout.task.id]
        assert (row["reward"], row["environment"], row["version"]) == (1.0, "adder", "0.4.2")
        assert row["tools"] == asked[0]["tools"]
        tools = [Tool(**tool["function"]) for tool in row["tools"]]
        again = tokens.render(as_messages(row["messages"]), tools)
        assert again == tokens.render(as_messages(conversation(rollout)), rollout.tools)
        assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
