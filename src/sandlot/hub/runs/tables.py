"""The tables of runs: what a run is, which releases it used, its batches, and a narrow row for every rollout.

The rollouts themselves stand in blobs, one gzip member for each event, and a row says where.
"""

from __future__ import annotations

import sqlalchemy as sa

from sandlot.hub.db import key, metadata, moment, ref

runs = sa.Table(
    "runs",
    metadata,
    key(),
    ref("owner_id", "accounts.id"),
    sa.Column("kind", sa.String(8), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False, default=""),
    sa.Column("status", sa.String(12), nullable=False),
    sa.Column("visibility", sa.String(8), nullable=False),
    sa.Column("record", sa.JSON, nullable=False),
    sa.Column("offset", sa.BigInteger, nullable=False, default=0),
    sa.Column("rollouts", sa.BigInteger, nullable=False, default=0),
    moment("created_at"),
    ref("created_by", "accounts.id"),
    moment("updated_at"),
    ref("updated_by", "accounts.id"),
)

run_environments = sa.Table(
    "run_environments",
    metadata,
    sa.Column("run_id", sa.String(26), sa.ForeignKey("runs.id"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    ref("package_id", "packages.id", nullable=True),
    ref("release_id", "releases.id", nullable=True),
    sa.Column("owner", sa.String(39), nullable=True),
    sa.Column("name", sa.String(200), nullable=False, index=True),
    sa.Column("version", sa.String(100), nullable=True),
    sa.Column("digest", sa.String(71), nullable=True),
)

batches = sa.Table(
    "run_batches",
    metadata,
    sa.Column("run_id", sa.String(26), sa.ForeignKey("runs.id"), primary_key=True),
    sa.Column("offset", sa.BigInteger, primary_key=True),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("events", sa.Integer, nullable=False),
    sa.Column("chunk", sa.String(64), nullable=False),
    moment("created_at"),
    ref("created_by", "accounts.id"),
)

rollouts = sa.Table(
    "rollouts",
    metadata,
    sa.Column("run_id", sa.String(26), sa.ForeignKey("runs.id"), primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True),
    sa.Column("rollout_id", sa.Text, nullable=False),
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("index", sa.Integer, nullable=False),
    sa.Column("status", sa.String(12), nullable=False),
    sa.Column("reward", sa.Float, nullable=True),
    sa.Column("turns", sa.Integer, nullable=False),
    sa.Column("tokens", sa.BigInteger, nullable=True),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("stop", sa.Text, nullable=True),
    sa.Column("first_words", sa.Text, nullable=False),
    sa.Column("step", sa.Integer, nullable=True),
    sa.Column("split", sa.String(8), nullable=False),
    sa.Column("environment", sa.Text, nullable=False),
    sa.Column("scores", sa.JSON, nullable=False),
    sa.Column("model_seconds", sa.Float, nullable=False),
    sa.Column("environment_seconds", sa.Float, nullable=False),
    sa.Column("scoring_seconds", sa.Float, nullable=False),
    sa.Column("cost", sa.Float, nullable=True),
    sa.Column("chunk", sa.String(64), nullable=False),
    sa.Column("chunk_offset", sa.BigInteger, nullable=False),
    sa.Column("chunk_length", sa.BigInteger, nullable=False),
    sa.Column("verdict", sa.JSON(none_as_null=True), nullable=True),
    sa.UniqueConstraint("run_id", "rollout_id"),
    sa.Index("ix_rollouts_run_id_task_id", "run_id", "task_id"),
    sa.Index("ix_rollouts_run_id_step", "run_id", "step"),
)

metrics = sa.Table(
    "run_metrics",
    metadata,
    sa.Column("run_id", sa.String(26), sa.ForeignKey("runs.id"), primary_key=True),
    sa.Column("step", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("value", sa.Float, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
)
