"""The first schema.

A migration says what was true when it was written and is never edited: a later one changes it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Makes all tables."""
    _accounts()
    _credentials()
    _packages()
    _files()
    _uploads()
    _runs()
    _rollouts()


def _accounts() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("name", sa.String(length=39), nullable=False),
        sa.Column("kind", sa.String(length=12), nullable=False),
        sa.Column("display_name", sa.String(length=200), nullable=False),
        sa.Column("password_hash", sa.String(length=255), nullable=True),
        sa.Column("admin", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("created_by", sa.String(length=26), nullable=True),
        sa.Column("updated_at", sa.String(length=27), nullable=False),
        sa.Column("disabled_at", sa.String(length=27), nullable=True),
        sa.ForeignKeyConstraint(["created_by"], ["accounts.id"], name=op.f("fk_accounts_created_by")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accounts")),
        sa.UniqueConstraint("name", name=op.f("uq_accounts_name")),
    )
    op.create_index(op.f("ix_accounts_created_by"), "accounts", ["created_by"], unique=False)
    op.create_table(
        "audit",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("at", sa.String(length=27), nullable=False),
        sa.Column("actor_id", sa.String(length=26), nullable=True),
        sa.Column("owner_id", sa.String(length=26), nullable=True),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["actor_id"], ["accounts.id"], name=op.f("fk_audit_actor_id")),
        sa.ForeignKeyConstraint(["owner_id"], ["accounts.id"], name=op.f("fk_audit_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_actor_id"), "audit", ["actor_id"], unique=False)
    op.create_index(op.f("ix_audit_owner_id"), "audit", ["owner_id"], unique=False)
    op.create_table(
        "members",
        sa.Column("organisation_id", sa.String(length=26), nullable=False),
        sa.Column("user_id", sa.String(length=26), nullable=False),
        sa.Column("role", sa.String(length=12), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("created_by", sa.String(length=26), nullable=True),
        sa.Column("updated_at", sa.String(length=27), nullable=False),
        sa.ForeignKeyConstraint(["created_by"], ["accounts.id"], name=op.f("fk_members_created_by")),
        sa.ForeignKeyConstraint(["organisation_id"], ["accounts.id"], name=op.f("fk_members_organisation_id")),
        sa.ForeignKeyConstraint(["user_id"], ["accounts.id"], name=op.f("fk_members_user_id")),
        sa.PrimaryKeyConstraint("organisation_id", "user_id", name=op.f("pk_members")),
    )
    op.create_index(op.f("ix_members_created_by"), "members", ["created_by"], unique=False)
    op.create_index(op.f("ix_members_user_id"), "members", ["user_id"], unique=False)


def _credentials() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("account_id", sa.String(length=26), nullable=False),
        sa.Column("owner_id", sa.String(length=26), nullable=True),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("created_by", sa.String(length=26), nullable=True),
        sa.Column("expires_at", sa.String(length=27), nullable=True),
        sa.Column("last_used_at", sa.String(length=27), nullable=True),
        sa.Column("revoked_at", sa.String(length=27), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_api_keys_account_id")),
        sa.ForeignKeyConstraint(["created_by"], ["accounts.id"], name=op.f("fk_api_keys_created_by")),
        sa.ForeignKeyConstraint(["owner_id"], ["accounts.id"], name=op.f("fk_api_keys_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_api_keys_secret_hash")),
    )
    op.create_index(op.f("ix_api_keys_account_id"), "api_keys", ["account_id"], unique=False)
    op.create_index(op.f("ix_api_keys_created_by"), "api_keys", ["created_by"], unique=False)
    op.create_index(op.f("ix_api_keys_owner_id"), "api_keys", ["owner_id"], unique=False)
    op.create_index(op.f("ix_api_keys_prefix"), "api_keys", ["prefix"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("account_id", sa.String(length=26), nullable=False),
        sa.Column("csrf", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("expires_at", sa.String(length=27), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_sessions_account_id")),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_account_id"), "sessions", ["account_id"], unique=False)


def _packages() -> None:
    op.create_table(
        "packages",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("owner_id", sa.String(length=26), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("visibility", sa.String(length=8), nullable=False),
        sa.Column("latest_id", sa.String(length=26), nullable=True),
        sa.Column("latest_version", sa.String(length=100), nullable=True),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("license", sa.String(length=200), nullable=False),
        sa.Column("search_text", sa.Text(), nullable=False),
        sa.Column("downloads", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("created_by", sa.String(length=26), nullable=False),
        sa.Column("updated_at", sa.String(length=27), nullable=False),
        sa.Column("updated_by", sa.String(length=26), nullable=False),
        sa.ForeignKeyConstraint(["created_by"], ["accounts.id"], name=op.f("fk_packages_created_by")),
        sa.ForeignKeyConstraint(["owner_id"], ["accounts.id"], name=op.f("fk_packages_owner_id")),
        sa.ForeignKeyConstraint(["updated_by"], ["accounts.id"], name=op.f("fk_packages_updated_by")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_packages")),
        sa.UniqueConstraint("owner_id", "name", name=op.f("uq_packages_owner_id_name")),
    )
    op.create_index(op.f("ix_packages_created_by"), "packages", ["created_by"], unique=False)
    op.create_index(op.f("ix_packages_owner_id"), "packages", ["owner_id"], unique=False)
    op.create_index(op.f("ix_packages_updated_by"), "packages", ["updated_by"], unique=False)
    op.create_table(
        "releases",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("package_id", sa.String(length=26), nullable=False),
        sa.Column("owner_id", sa.String(length=26), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=False),
        sa.Column("prerelease", sa.Boolean(), nullable=False),
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("requires_python", sa.String(length=200), nullable=False),
        sa.Column("yanked_reason", sa.Text(), nullable=True),
        sa.Column("yanked_at", sa.String(length=27), nullable=True),
        sa.Column("yanked_by", sa.String(length=26), nullable=True),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("created_by", sa.String(length=26), nullable=False),
        sa.Column("deleted_at", sa.String(length=27), nullable=True),
        sa.Column("deleted_by", sa.String(length=26), nullable=True),
        sa.ForeignKeyConstraint(["created_by"], ["accounts.id"], name=op.f("fk_releases_created_by")),
        sa.ForeignKeyConstraint(["deleted_by"], ["accounts.id"], name=op.f("fk_releases_deleted_by")),
        sa.ForeignKeyConstraint(["owner_id"], ["accounts.id"], name=op.f("fk_releases_owner_id")),
        sa.ForeignKeyConstraint(["package_id"], ["packages.id"], name=op.f("fk_releases_package_id")),
        sa.ForeignKeyConstraint(["yanked_by"], ["accounts.id"], name=op.f("fk_releases_yanked_by")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_releases")),
        sa.UniqueConstraint("package_id", "version", name=op.f("uq_releases_package_id_version")),
    )
    op.create_index(op.f("ix_releases_created_by"), "releases", ["created_by"], unique=False)
    op.create_index(op.f("ix_releases_deleted_by"), "releases", ["deleted_by"], unique=False)
    op.create_index(op.f("ix_releases_digest"), "releases", ["digest"], unique=False)
    op.create_index(op.f("ix_releases_owner_id"), "releases", ["owner_id"], unique=False)
    op.create_index(op.f("ix_releases_package_id"), "releases", ["package_id"], unique=False)
    op.create_index(op.f("ix_releases_yanked_by"), "releases", ["yanked_by"], unique=False)


def _files() -> None:
    op.create_table(
        "files",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("release_id", sa.String(length=26), nullable=False),
        sa.Column("owner_id", sa.String(length=26), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("metadata_sha256", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("created_by", sa.String(length=26), nullable=False),
        sa.ForeignKeyConstraint(["created_by"], ["accounts.id"], name=op.f("fk_files_created_by")),
        sa.ForeignKeyConstraint(["owner_id"], ["accounts.id"], name=op.f("fk_files_owner_id")),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name=op.f("fk_files_release_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_files")),
        sa.UniqueConstraint("owner_id", "name", name=op.f("uq_files_owner_id_name")),
    )
    op.create_index(op.f("ix_files_created_by"), "files", ["created_by"], unique=False)
    op.create_index(op.f("ix_files_owner_id"), "files", ["owner_id"], unique=False)
    op.create_index(op.f("ix_files_release_id"), "files", ["release_id"], unique=False)
    op.create_index(op.f("ix_files_sha256"), "files", ["sha256"], unique=False)
    op.create_table(
        "downloads",
        sa.Column("file_id", sa.String(length=26), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["file_id"], ["files.id"], name=op.f("fk_downloads_file_id")),
        sa.PrimaryKeyConstraint("file_id", "day", name=op.f("pk_downloads")),
    )


def _uploads() -> None:
    op.create_table(
        "sdk_files",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("metadata_sha256", sa.String(length=64), nullable=False),
        sa.Column("requires_python", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_sdk_files")),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("owner_id", sa.String(length=26), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=False),
        sa.Column("visibility", sa.String(length=8), nullable=True),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("release_id", sa.String(length=26), nullable=True),
        sa.Column("created_release", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("created_by", sa.String(length=26), nullable=False),
        sa.Column("expires_at", sa.String(length=27), nullable=False),
        sa.ForeignKeyConstraint(["created_by"], ["accounts.id"], name=op.f("fk_uploads_created_by")),
        sa.ForeignKeyConstraint(["owner_id"], ["accounts.id"], name=op.f("fk_uploads_owner_id")),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name=op.f("fk_uploads_release_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
        sa.UniqueConstraint("created_by", "idempotency_key", name=op.f("uq_uploads_created_by_idempotency_key")),
    )
    op.create_index(op.f("ix_uploads_created_by"), "uploads", ["created_by"], unique=False)
    op.create_index(op.f("ix_uploads_owner_id"), "uploads", ["owner_id"], unique=False)
    op.create_index(op.f("ix_uploads_release_id"), "uploads", ["release_id"], unique=False)
    op.create_table(
        "upload_files",
        sa.Column("upload_id", sa.String(length=26), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("received", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["upload_id"], ["uploads.id"], name=op.f("fk_upload_files_upload_id")),
        sa.PrimaryKeyConstraint("upload_id", "sha256", name=op.f("pk_upload_files")),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("owner_id", sa.String(length=26), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("visibility", sa.String(length=8), nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("rollouts", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("created_by", sa.String(length=26), nullable=False),
        sa.Column("updated_at", sa.String(length=27), nullable=False),
        sa.Column("updated_by", sa.String(length=26), nullable=False),
        sa.ForeignKeyConstraint(["created_by"], ["accounts.id"], name=op.f("fk_runs_created_by")),
        sa.ForeignKeyConstraint(["owner_id"], ["accounts.id"], name=op.f("fk_runs_owner_id")),
        sa.ForeignKeyConstraint(["updated_by"], ["accounts.id"], name=op.f("fk_runs_updated_by")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    op.create_index(op.f("ix_runs_created_by"), "runs", ["created_by"], unique=False)
    op.create_index(op.f("ix_runs_owner_id"), "runs", ["owner_id"], unique=False)
    op.create_index(op.f("ix_runs_updated_by"), "runs", ["updated_by"], unique=False)
    op.create_table(
        "run_batches",
        sa.Column("run_id", sa.String(length=26), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("chunk", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=27), nullable=False),
        sa.Column("created_by", sa.String(length=26), nullable=False),
        sa.ForeignKeyConstraint(["created_by"], ["accounts.id"], name=op.f("fk_run_batches_created_by")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_batches_run_id")),
        sa.PrimaryKeyConstraint("run_id", "offset", name=op.f("pk_run_batches")),
    )
    op.create_index(op.f("ix_run_batches_created_by"), "run_batches", ["created_by"], unique=False)
    op.create_table(
        "run_environments",
        sa.Column("run_id", sa.String(length=26), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("package_id", sa.String(length=26), nullable=True),
        sa.Column("release_id", sa.String(length=26), nullable=True),
        sa.Column("owner", sa.String(length=39), nullable=True),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=True),
        sa.Column("digest", sa.String(length=71), nullable=True),
        sa.ForeignKeyConstraint(["package_id"], ["packages.id"], name=op.f("fk_run_environments_package_id")),
        sa.ForeignKeyConstraint(["release_id"], ["releases.id"], name=op.f("fk_run_environments_release_id")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_environments_run_id")),
        sa.PrimaryKeyConstraint("run_id", "position", name=op.f("pk_run_environments")),
    )
    op.create_index(op.f("ix_run_environments_name"), "run_environments", ["name"], unique=False)
    op.create_index(op.f("ix_run_environments_package_id"), "run_environments", ["package_id"], unique=False)
    op.create_index(op.f("ix_run_environments_release_id"), "run_environments", ["release_id"], unique=False)


def _rollouts() -> None:
    op.create_table(
        "rollouts",
        sa.Column("run_id", sa.String(length=26), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("rollout_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("reward", sa.Float(), nullable=True),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("stop", sa.Text(), nullable=True),
        sa.Column("first_words", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.Column("split", sa.String(length=8), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("scores", sa.JSON(), nullable=False),
        sa.Column("model_seconds", sa.Float(), nullable=False),
        sa.Column("environment_seconds", sa.Float(), nullable=False),
        sa.Column("scoring_seconds", sa.Float(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=True),
        sa.Column("chunk", sa.String(length=64), nullable=False),
        sa.Column("chunk_offset", sa.BigInteger(), nullable=False),
        sa.Column("chunk_length", sa.BigInteger(), nullable=False),
        sa.Column("verdict", sa.JSON(none_as_null=True), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_rollouts_run_id")),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_rollouts")),
        sa.UniqueConstraint("run_id", "rollout_id", name=op.f("uq_rollouts_run_id_rollout_id")),
    )
    op.create_index("ix_rollouts_run_id_step", "rollouts", ["run_id", "step"], unique=False)
    op.create_index("ix_rollouts_run_id_task_id", "rollouts", ["run_id", "task_id"], unique=False)
    op.create_table(
        "run_metrics",
        sa.Column("run_id", sa.String(length=26), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_metrics_run_id")),
        sa.PrimaryKeyConstraint("run_id", "step", "name", name=op.f("pk_run_metrics")),
    )
