"""vLLM's classify, pooling and score, from the endpoint's side: a script's answer is the number of a reward model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sandlot.records import JsonObject, text_of
from sandlot.testing.form import Event, Form, Saying


class RatingForm(Form):
    """One of the three; `entry` makes what stands in the answer's `data` of the number."""

    def __init__(self, path: str, entry: Callable[[Any], JsonObject]) -> None:
        self.path = path
        self._entry = entry

    def wrong(self, body: JsonObject, headers: Mapping[str, str]) -> str | None:
        """See `Form`."""
        if body.get("stream"):
            return "stream: a reward model has nothing to stream"
        if self.path == "/score":
            texts = [body.get("text_1"), body.get("text_2")]
            return None if all(isinstance(text, str) for text in texts) else "text_1, text_2: two texts were expected"
        return None if isinstance(body.get("messages"), list) else "messages: a list was expected"

    def messages(self, body: JsonObject) -> list[JsonObject]:
        """See `Form`."""
        if self.path != "/score":
            return list(body["messages"])
        return [{"role": "user", "content": body["text_1"]}, {"role": "assistant", "content": body["text_2"]}]

    def answer(self, body: JsonObject, saying: Saying) -> JsonObject:
        """See `Form`. A text that is no number stands in the number's place as it is."""
        text = text_of(saying.message.get("content"))
        try:
            number: Any = float(text)
        except ValueError:
            number = text
        tokens = saying.usage.prompt_tokens
        usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
        entry = {"index": 0, **self._entry(number)}
        return {"id": "mock", "object": "list", "model": body.get("model"), "data": [entry], "usage": usage}

    def events(self, body: JsonObject, answer: JsonObject) -> Iterator[Event]:
        """See `Form`: there are none."""
        return iter(())

    def error(self, status: int, message: str, code: str | None = None) -> JsonObject:
        """See `Form`."""
        return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}

    def empty(self) -> JsonObject:
        """See `Form`."""
        return {"id": "mock", "object": "list", "data": []}


RATING_FORMS: tuple[RatingForm, ...] = (
    RatingForm("/classify", lambda number: {"label": "LABEL_0", "probs": [number], "num_classes": 1}),
    # A reward model that judges each token; the last one's is the conversation's.
    RatingForm("/pooling", lambda number: {"object": "pooling", "data": [[0.5], [number]]}),
    RatingForm("/score", lambda number: {"object": "score", "score": number}),
)
