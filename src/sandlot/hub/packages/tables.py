"""The tables of packages, releases, files, uploads and downloads."""

from __future__ import annotations

import sqlalchemy as sa

from sandlot.hub.db import key, metadata, moment, ref

packages = sa.Table(
    "packages",
    metadata,
    key(),
    ref("owner_id", "accounts.id"),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("visibility", sa.String(8), nullable=False),
    sa.Column("latest_id", sa.String(26), nullable=True),
    sa.Column("latest_version", sa.String(100), nullable=True),
    sa.Column("summary", sa.Text, nullable=False, default=""),
    sa.Column("tags", sa.JSON, nullable=False),
    sa.Column("kind", sa.String(40), nullable=False, default=""),
    sa.Column("license", sa.String(200), nullable=False, default=""),
    sa.Column("search_text", sa.Text, nullable=False, default=""),
    sa.Column("downloads", sa.BigInteger, nullable=False, default=0),
    moment("created_at"),
    ref("created_by", "accounts.id"),
    moment("updated_at"),
    ref("updated_by", "accounts.id"),
    sa.UniqueConstraint("owner_id", "name"),
)

releases = sa.Table(
    "releases",
    metadata,
    key(),
    ref("package_id", "packages.id"),
    ref("owner_id", "accounts.id"),
    sa.Column("version", sa.String(100), nullable=False),
    sa.Column("prerelease", sa.Boolean, nullable=False),
    sa.Column("digest", sa.String(71), nullable=False, index=True),
    sa.Column("manifest", sa.JSON, nullable=False),
    sa.Column("requires_python", sa.String(200), nullable=False, default=""),
    sa.Column("yanked_reason", sa.Text, nullable=True),
    moment("yanked_at", nullable=True),
    ref("yanked_by", "accounts.id", nullable=True),
    moment("created_at"),
    ref("created_by", "accounts.id"),
    moment("deleted_at", nullable=True),
    ref("deleted_by", "accounts.id", nullable=True),
    sa.UniqueConstraint("package_id", "version"),
)

files = sa.Table(
    "files",
    metadata,
    key(),
    ref("release_id", "releases.id"),
    ref("owner_id", "accounts.id"),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("kind", sa.String(8), nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False, index=True),
    sa.Column("metadata_sha256", sa.String(64), nullable=True),
    moment("created_at"),
    ref("created_by", "accounts.id"),
    sa.UniqueConstraint("owner_id", "name"),
)

downloads = sa.Table(
    "downloads",
    metadata,
    sa.Column("file_id", sa.String(26), sa.ForeignKey("files.id"), primary_key=True),
    sa.Column("day", sa.String(10), primary_key=True),
    sa.Column("count", sa.BigInteger, nullable=False),
)

uploads = sa.Table(
    "uploads",
    metadata,
    key(),
    ref("owner_id", "accounts.id"),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("version", sa.String(100), nullable=False),
    sa.Column("visibility", sa.String(8), nullable=True),
    sa.Column("manifest", sa.JSON, nullable=False),
    sa.Column("idempotency_key", sa.String(255), nullable=True),
    ref("release_id", "releases.id", nullable=True),
    sa.Column("created_release", sa.Boolean, nullable=False, default=False),
    moment("created_at"),
    ref("created_by", "accounts.id"),
    moment("expires_at"),
    sa.UniqueConstraint("created_by", "idempotency_key"),
)

upload_files = sa.Table(
    "upload_files",
    metadata,
    sa.Column("upload_id", sa.String(26), sa.ForeignKey("uploads.id"), primary_key=True),
    sa.Column("sha256", sa.String(64), primary_key=True),
    sa.Column("received", sa.Boolean, nullable=False),
)

sdk_files = sa.Table(
    "sdk_files",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("version", sa.String(100), nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("metadata_sha256", sa.String(64), nullable=False),
    sa.Column("requires_python", sa.String(200), nullable=False),
    moment("created_at"),
)
