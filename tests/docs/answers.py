"""What the model of the documentation's pages says: right, as a rule, on the tasks that the pages use."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from sandlot.records import Message, text_of


def answer(messages: Sequence[Message]) -> str:
    """The answer to the last message. One in four is wrong, always the same ones."""
    asked = text_of(messages[-1].get("content"))
    is_wrong = zlib.crc32(asked.encode()) % 4 == 0
    if repeated := re.search(r"Repeat this and say nothing else: (.*)", asked):
        return repeated[1] + " again" * is_wrong
    if added := re.search(r"(-?\d+) \+ (-?\d+)", asked):
        return f"<answer>{int(added[1]) + int(added[2]) + is_wrong}</answer>"
    if counted := re.search(r"letter '(\w)' .* '(\w+)'", asked):
        return f"<answer>{counted[2].count(counted[1]) + is_wrong}</answer>"
    if guessed := re.search(r"between (\d+) and (\d+)", asked):
        return f"<guess>{(int(guessed[1]) + int(guessed[2])) // 2}</guess>"
    if "reversed_text" in text_of(messages[0].get("content")):
        return f"<reversed_text>{asked[::-1][is_wrong:]}</reversed_text>"
    return asked
