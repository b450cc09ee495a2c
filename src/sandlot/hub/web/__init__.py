"""The pages: one visual language for the hub and for runs on this machine.

Invariants: every page reads well without script and loads nothing from elsewhere; whatever a rollout, a task or a
README says is escaped or sanitised; each page has a machine form beside it.
"""

from sandlot.hub.web.hub_site import add_hub_pages
from sandlot.hub.web.view import view_app

__all__ = ["add_hub_pages", "view_app"]
