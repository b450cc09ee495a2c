"""Accounts: users and organisations, their keys and sessions."""

from sandlot.hub.accounts.keys import Keys
from sandlot.hub.accounts.service import RESERVED_OWNERS, Accounts, Deed, find_account, record, viewer_of
from sandlot.hub.accounts.sessions import Session, Sessions

__all__ = [
    "RESERVED_OWNERS",
    "Accounts",
    "Deed",
    "Keys",
    "Session",
    "Sessions",
    "find_account",
    "record",
    "viewer_of",
]
