from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st

import sandlot as vf
from sandlot.errors import Invalid, NotFound

ROWS = [{"question": f"What is {number} + 1?", "answer": str(number + 1)} for number in range(5)]


def tasks_of(source: Any, split: str = "train", **options: Any) -> list[vf.Task]:
    return list(vf.SingleTurnEnv(dataset=source, **options).playable.tasks(split))


class Dataset:
    """Looks like a `datasets.Dataset`."""

    column_names: ClassVar = ["question", "answer"]

    def __len__(self) -> int:
        return len(ROWS)

    def __iter__(self) -> Any:
        return iter(ROWS)


def test_a_dataset_may_be_rows_a_dataset_a_file_a_function_or_a_generator(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n")

    def generator() -> Any:
        yield from ROWS

    expected = tasks_of(ROWS)
    for source in (Dataset(), path, str(path), lambda: ROWS, generator, lambda: path):
        assert tasks_of(source) == expected
        env = vf.SingleTurnEnv(dataset=source)
        assert list(env.playable.tasks()) == list(env.playable.tasks()), "reading it twice gives it twice"


def test_EVAL_15_equal_records_have_equal_ids_whatever_their_order() -> None:
    forward = {task.answer: task.id for task in tasks_of(ROWS)}
    backward = {task.answer: task.id for task in tasks_of(ROWS[::-1])}
    other_keys = {task.answer: task.id for task in tasks_of([dict(reversed(row.items())) for row in ROWS])}
    assert forward == backward == other_keys


def test_equal_rows_are_told_apart_by_their_occurrence_and_authors_ids_are_kept() -> None:
    first, second = tasks_of([ROWS[0], ROWS[0]])
    assert second.id == f"{first.id}-1"
    assert [task.id for task in tasks_of([{**ROWS[0], "id": "a"}, {**ROWS[1], "id": 7}])] == ["a", "7"]


def test_ids_of_an_authors_that_tell_nothing_apart_are_told_apart_by_what_the_rows_hold() -> None:
    rows = [{**ROWS[0], "id": "a"}, {**ROWS[1], "id": "a"}, {**ROWS[1], "id": "a"}]
    first, second, third = (task.id for task in tasks_of(rows))
    assert first == "a"
    assert second.startswith("a-")
    assert third == f"{second}-1"
    assert [task.answer for task in tasks_of(rows)] == ["1", "2", "2"]
    assert [task.id for task in tasks_of([*rows, {**ROWS[2], "id": "b"}])][3] == "b"


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), min_size=1), min_size=1, max_size=8))
def test_ids_are_unique_within_a_dataset(rows: list[dict[str, int]]) -> None:
    ids = [task.id for task in tasks_of([{"question": "?", **row} for row in rows])]
    assert len(set(ids)) == len(ids)


def test_prompts_are_built_from_system_prompt_examples_and_question() -> None:
    examples = [{"role": "user", "content": "1?"}, {"role": "assistant", "content": "2"}]
    (task, *_) = tasks_of(ROWS, system_prompt="Add.", few_shot=examples)
    assert [message["role"] for message in task.prompt] == ["system", "user", "assistant", "user"]
    (task,) = tasks_of([{"prompt": [{"role": "system", "content": "Mine."}]}], system_prompt="Add.")
    assert [message["content"] for message in task.prompt] == ["Mine."]
    (task,) = tasks_of([{"prompt": "plain text"}], system_prompt="Add.")
    assert [message["content"] for message in task.prompt] == ["Add.", "plain text"]


def test_columns_stand_beside_and_a_text_task_column_is_tolerated() -> None:
    (task,) = tasks_of([{"question": "?", "task": "math", "level": 3, "info": '{"source": "book"}'}])
    assert task.fields == {"question": "?", "task": "math", "level": 3}
    assert task.info == {"source": "book"}


def test_the_held_out_split_is_used_where_there_is_one() -> None:
    env = vf.SingleTurnEnv(dataset=ROWS[:3], eval_dataset=ROWS[3:])
    assert [len(list(env.playable.tasks(split))) for split in ("train", "eval")] == [3, 2]
    assert len(list(vf.SingleTurnEnv(dataset=ROWS).playable.tasks("eval"))) == 5
    with pytest.raises(Invalid, match="no split 'test'"):
        env.playable.tasks("test")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([{"answer": "no question"}], "neither 'prompt' nor 'question'"),
        (["text"], "row 0 of the dataset is a str"),
        (42, "cannot be a int"),
        ([{"question": "?", "info": "not json"}], "'info' of row 0"),
        ([{"question": "?", "info": 3}], "'info' of row 0"),
    ],
)
def test_bad_rows_are_named(source: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        tasks_of(source)


def test_bad_files_are_named_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no\.jsonl"):
        tasks_of(tmp_path / "no.jsonl")
    path = tmp_path / "bad.jsonl"
    path.write_text('{"question": "?"}\n{"question": \n')
    with pytest.raises(Invalid, match="line 2"):
        tasks_of(path)


def test_an_environment_without_tasks_names_the_remedy() -> None:
    with pytest.raises(Invalid, match="has no tasks") as caught:
        vf.SingleTurnEnv().playable.tasks()
    assert "with_tasks" in (caught.value.hint or "")
