"""The hub: the server that keeps packages and runs, and the pages that show them."""

from sandlot.hub.app import create_app, serve
from sandlot.hub.listen import serve_view
from sandlot.hub.permissions import Viewer
from sandlot.hub.services import Hub, open_hub
from sandlot.hub.settings import Settings, load_settings

__all__ = ["Hub", "Settings", "Viewer", "create_app", "load_settings", "open_hub", "serve", "serve_view"]
