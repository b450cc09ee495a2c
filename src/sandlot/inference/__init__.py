"""A policy that is served: the sampler port, the torch engine, the OpenAI-compatible server."""

from sandlot.inference.sampler import Sampled, Sampler, TokenSampling

__all__ = ["Sampled", "Sampler", "TokenSampling"]
