"""Packages to look at: one with everything that a package's page can show, in several versions."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
from tests.unit.hub.artefacts import Built, release_of, sdist_bytes, wheel_entries, zip_bytes
from tests.unit.hub.site import publish

from sandlot.records import Probe, RewardInfo, Split, Tool

README = """# catalogue

Questions about a catalogue of a few hundred things. The model searches, calculates, and answers with an **amount**.

[![tests](https://example.org/badge.svg)](https://example.org) and the [tasks](data/tasks.jsonl).

## Quick start

```python
import sandlot as sl

env = sl.load_environment("catalogue", split="test")
results = env.evaluate(client=client, model="smollm2-135m", num_examples=20)
print(results.reward)  # one number for each rollout
```

## Rewards

| name | weight | looks at |
|---|---:|---|
| `exact_amount` | 0.8 | the amount, to the cent |
| `answer_format` | 0.2 | whether there is a single amount |

1. Tasks are drawn from 120 templates.
2. Held-out tasks use words that training never sees.

> A model that never searches scores at most 0.2.
"""

CODE = '''"""A catalogue and questions about it."""

import sandlot as sl


def exact_amount(completion, answer, **kwargs):
    """1 for the right amount, to the cent."""
    said = sl.parse_amount(completion[-1]["content"])
    return 1.0 if said == answer else 0.0


def load_environment(split: str = "train", **kwargs):
    rubric = sl.Rubric(funcs=[exact_amount], weights=[0.8])
    return sl.ToolEnv(dataset=rows(split), rubric=rubric, tools=[search_catalogue, calculate], max_turns=6)
'''

PROBE = Probe(
    kind="tool",
    max_turns=6,
    tools=[
        Tool(name="search_catalogue", description="Finds entries whose text contains the words."),
        Tool(name="calculate", description="Works out an arithmetic expression."),
    ],
    rewards=[
        RewardInfo(name="exact_amount", weight=0.8, description="1 for the right amount, to the cent."),
        RewardInfo(name="answer_format", weight=0.2, description="Whether the answer is a single amount."),
        RewardInfo(name="tool_calls", weight=0.0, description="How many calls it took."),
    ],
    splits=[Split(name="train", size=1200), Split(name="test", size=200)],
    sample_tasks=[
        {
            "id": f"catalogue-{n:03d}",
            "prompt": [
                {"role": "system", "content": "You answer questions about a catalogue. Use the tools."},
                {"role": "user", "content": f"What do {n} lanterns cost together? Answer with the amount."},
            ],
        }
        for n in range(2, 6)
    ],
    system_prompt="You answer questions about a catalogue. Use the tools.",
    secrets=["CATALOGUE_KEY"],
)


def built(name: str, version: str, *, readme: str = README, probe: Probe | None = PROBE, **project: Any) -> Built:
    """A release whose wheel and manifest agree, as a publisher would send them."""
    summary = project.pop("summary", "Questions about a catalogue that need a search and a sum")
    tags = list(project.pop("tags", ("tools", "multi-turn", "arithmetic")))
    head = f"Metadata-Version: 2.3\nName: {name}\nVersion: {version}\nSummary: {summary}\n"
    head += "Requires-Python: >=3.9\nDescription-Content-Type: text/markdown\n"
    metadata = f"{head}\n{readme}"
    entries = wheel_entries(name, version, body=CODE, metadata=metadata)
    sdist = sdist_bytes(name, version, members={"catalogue.py": CODE.encode(), "data/tasks.jsonl": b'{"q": 1}\n'})
    made = release_of(
        name, version, wheel=zip_bytes(entries), entries=entries, sdist=sdist, tags=tags, summary=summary, **project
    )
    project_record = msgspec.structs.replace(made.manifest.project, readme=readme)
    manifest = msgspec.structs.replace(made.manifest, project=project_record, probe=probe)
    return Built(manifest, made.contents)


def fill(ada: httpx.Client, owner: str = "ada") -> None:
    """Three versions of one package, one of them yanked, and a few more packages."""
    for version in ("0.2.0", "0.3.0", "0.3.1", "0.4.0rc1"):
        publish(ada, built("catalogue", version), owner=owner, visibility=None).raise_for_status()
    ada.patch(f"/api/v1/packages/{owner}/catalogue", json={"visibility": "public"}).raise_for_status()
    for name, summary, tags in (
        ("reverse-text", "Reverse a line of text, letter by letter", ("single-turn", "starter")),
        ("wordle-env", "Guess a word of five letters in six tries", ("game", "multi-turn")),
        ("sentence-env", "Write one sentence of exactly N words that holds two given ones", ("instruction", "starter")),
    ):
        publish(ada, built(name, "0.1.0", summary=summary, tags=tags), owner=owner).raise_for_status()
        if name != "wordle-env":
            ada.patch(f"/api/v1/packages/{owner}/{name}", json={"visibility": "public"}).raise_for_status()
