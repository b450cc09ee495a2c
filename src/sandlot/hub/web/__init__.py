"""The pages: one visual language for the hub and for runs on this machine.

Invariants: every page reads well without script and loads nothing from elsewhere; whatever a rollout, a task or a
README says is escaped or sanitised; each page has a machine form beside it.
"""

from sandlot.hub.web.app import add_pages
from sandlot.hub.web.site import Site, Viewer
from sandlot.hub.web.view import view_app

__all__ = ["Site", "Viewer", "add_pages", "view_app"]
