"""The forms in which endpoints take requests and give answers."""

from sandlot.models.dialects.anthropic import ANTHROPIC
from sandlot.models.dialects.chat import CHAT
from sandlot.models.dialects.completions import COMPLETIONS
from sandlot.models.dialects.dialect import Assembly, Dialect
from sandlot.models.dialects.rating import CLASSIFY, POOLING, SCORE
from sandlot.models.dialects.responses import RESPONSES

DIALECTS: dict[str, Dialect] = {
    "openai_chat_completions": CHAT,
    "openai_responses": RESPONSES,
    "anthropic_messages": ANTHROPIC,
    "openai_completions": COMPLETIONS,
    "vllm_classify": CLASSIFY,
    "vllm_pooling": POOLING,
    "vllm_score": SCORE,
}
"""By the `type` of an endpoint."""

__all__ = ["ANTHROPIC", "CHAT", "COMPLETIONS", "DIALECTS", "RESPONSES", "Assembly", "Dialect"]
