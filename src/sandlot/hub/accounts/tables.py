"""The tables of accounts, memberships, keys and sessions, and the audit log."""

from __future__ import annotations

import sqlalchemy as sa

from sandlot.hub.db import key, metadata, moment, ref

accounts = sa.Table(
    "accounts",
    metadata,
    key(),
    sa.Column("name", sa.String(39), nullable=False, unique=True),
    sa.Column("kind", sa.String(12), nullable=False),
    sa.Column("display_name", sa.String(200), nullable=False, default=""),
    sa.Column("password_hash", sa.String(255), nullable=True),
    sa.Column("admin", sa.Boolean, nullable=False, default=False),
    moment("created_at"),
    ref("created_by", "accounts.id", nullable=True),
    moment("updated_at"),
    moment("disabled_at", nullable=True),
)

members = sa.Table(
    "members",
    metadata,
    sa.Column("organisation_id", sa.String(26), sa.ForeignKey("accounts.id"), primary_key=True),
    sa.Column("user_id", sa.String(26), sa.ForeignKey("accounts.id"), primary_key=True, index=True),
    sa.Column("role", sa.String(12), nullable=False),
    moment("created_at"),
    ref("created_by", "accounts.id", nullable=True),
    moment("updated_at"),
)

api_keys = sa.Table(
    "api_keys",
    metadata,
    key(),
    ref("account_id", "accounts.id"),
    ref("owner_id", "accounts.id", nullable=True),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("prefix", sa.String(16), nullable=False, index=True),
    sa.Column("secret_hash", sa.String(64), nullable=False, unique=True),
    sa.Column("scopes", sa.JSON, nullable=False),
    moment("created_at"),
    ref("created_by", "accounts.id", nullable=True),
    moment("expires_at", nullable=True),
    moment("last_used_at", nullable=True),
    moment("revoked_at", nullable=True),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("token_hash", sa.String(64), primary_key=True),
    ref("account_id", "accounts.id"),
    sa.Column("csrf", sa.String(64), nullable=False),
    moment("created_at"),
    moment("expires_at"),
)

audit = sa.Table(
    "audit",
    metadata,
    key(),
    moment("at"),
    ref("actor_id", "accounts.id", nullable=True),
    ref("owner_id", "accounts.id", nullable=True),
    sa.Column("action", sa.String(40), nullable=False),
    sa.Column("subject", sa.String(255), nullable=False),
    sa.Column("detail", sa.JSON, nullable=False),
)
