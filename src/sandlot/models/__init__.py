"""A Model you call; endpoints and their registry; dialects."""

from sandlot.models.client_model import ClientModel, from_client
from sandlot.models.connect import PROVIDERS, connect
from sandlot.models.endpoint import Endpoint, Price, Retries
from sandlot.models.endpoint_model import EndpointModel
from sandlot.models.limit import AdaptiveLimit
from sandlot.models.model import Completion, Model, Prior
from sandlot.models.patience import Clock, rollout_clock, waiting
from sandlot.models.registry import Registry
from sandlot.models.setback import OVERLONG_WORDINGS, is_overlong

__all__ = [
    "OVERLONG_WORDINGS",
    "PROVIDERS",
    "AdaptiveLimit",
    "ClientModel",
    "Clock",
    "Completion",
    "Endpoint",
    "EndpointModel",
    "Model",
    "Price",
    "Prior",
    "Registry",
    "Retries",
    "connect",
    "from_client",
    "is_overlong",
    "rollout_clock",
    "waiting",
]
