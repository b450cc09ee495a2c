"""The runner of the documentation notices what is wrong on a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.page import Wrong, missing_line, read_page
from tests.docs.playground import playground
from tests.docs.test_pages import check_data

from sandlot.errors import Invalid


def page(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


def run(tmp_path: Path, text: str) -> list[str]:
    read = read_page(page(tmp_path, text))
    (tmp_path / "place").mkdir()
    with playground(tmp_path / "place", read) as place:
        printed = []
        for block in read.blocks:
            if block.file:
                place.write(block.file, block.text)
            else:
                printed.append(place.run(block))
        return printed


def test_blocks_share_files_folder_variables_and_names(tmp_path: Path) -> None:
    text = """
```console
$ mkdir sub && cd sub
$ export GREETING=hello
```

```python
# words.py
word = "there"
```

```python
import os
from pathlib import Path
import words
there = words.word
print(Path.cwd().name)
```

```python
print(there)
```

```console
$ echo $GREETING $(basename $PWD)
hello sub
```
"""
    assert [each.strip() for each in run(tmp_path, text)] == ["", "sub", "there", "hello sub"]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```console\n$ echo one\ntwo\n```", "shows 'two', but it printed:\none"),
        ("```console\n$ false\n```", "ended with 1"),
        ("```bash\nfalse\ntrue\n```", "ended with 1"),
        ("```python\n1 / 0\n```", "page.md:1\nTraceback"),
        ("<!-- exit 2 -->\n```console\n$ false\n```", "ended with 1"),
        ("```console\n$ false &\n```", "ended with 1"),
        ("```python\n# ../out.py\nx = 1\n```", "outside of its folder"),
        ("```console\necho no prompt\n```", "begins with"),
    ],
)
def test_a_block_that_does_not_do_what_it_says_is_an_error(tmp_path: Path, block: str, message: str) -> None:
    with pytest.raises(AssertionError) as caught:
        run(tmp_path, block)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```\nx\n```", "language ''"),
        ("```yaml\nx: 1\n```", "language 'yaml'"),
        ("<!-- not run: no -->\n```bash\nx\n```", "needs a reason"),
        ("<!-- TODO -->\n```bash\nx\n```", "means nothing"),
        ("<!-- set-up: gpu -->\n\n```bash\nx\n```", "no set-up gpu"),
    ],
)
def test_a_block_that_would_not_be_checked_is_an_error(tmp_path: Path, block: str, message: str) -> None:
    with pytest.raises(Wrong, match=message):
        read_page(page(tmp_path, block))


def test_a_config_with_an_unknown_key_is_an_error(tmp_path: Path) -> None:
    (block,) = read_page(page(tmp_path, "```toml\n# config: eval\nmodls = ['x']\n```")).blocks
    with pytest.raises(Invalid, match="did you mean 'models'"):
        check_data(block, tmp_path / "page.md")


def test_a_page_sees_neither_the_users_home_nor_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a real one")
    (printed,) = run(tmp_path, "```console\n$ echo ${OPENAI_API_KEY:-none} $HOME\n```")
    assert printed.startswith(f"none {tmp_path}")


def test_output_is_compared_line_by_line_in_order_and_dots_stand_for_anything() -> None:
    output = "saving in outputs/abc\nreward   0.750 [0.6, 0.9]\nrollouts 8 scored\n"
    assert missing_line(["saving in …", "reward 0.750 …", "rollouts 8 scored"], output) is None
    assert missing_line(["rollouts 8 scored", "saving in …"], output) == "saving in …"
    assert missing_line(["rewar 0.75"], output) == "rewar 0.75"
