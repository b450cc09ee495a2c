"""The database: one engine, short transactions, migrations at start.

Invariants: readers never wait for a writer (SQLite in WAL mode); a write transaction holds the write lock from its
first statement, so it never fails half-way for another writer; the schema is that of the newest migration. Statements
are SQLAlchemy Core and mean the same on SQLite and PostgreSQL; the dialect shows only in this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alembic.command
import alembic.config
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from sandlot.errors import Invalid, MissingDependency, Unreachable

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

MIGRATIONS = Path(__file__).parent / "migrations"

_BUSY_SECONDS = 30
_SQLITE_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"busy_timeout={_BUSY_SECONDS * 1000}")


def key() -> sa.Column[str]:
    """The primary key of most tables: a ULID."""
    return sa.Column("id", sa.String(26), primary_key=True)


def ref(name: str, target: str, *, nullable: bool = False) -> sa.Column[str]:
    """A column that names a row of another table."""
    return sa.Column(name, sa.String(26), sa.ForeignKey(target), nullable=nullable, index=True)


def moment(name: str, *, nullable: bool = False) -> sa.Column[str]:
    """A point in time: ISO 8601 in UTC with microseconds, which sorts as text on every database."""
    return sa.Column(name, sa.String(27), nullable=nullable)


class Database:
    """Connections to one database. `read()` and `write()` each give one transaction."""

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        if self.is_sqlite:
            sa.event.listen(self.engine, "connect", _prepare_sqlite)
            sa.event.listen(self.engine, "begin", _begin_sqlite)

    def migrate(self) -> None:
        """Brings the schema to the newest migration. `Unreachable` if the database does not answer."""
        config = alembic.config.Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        try:
            with self.write() as connection:
                config.attributes["connection"] = connection
                alembic.command.upgrade(config, "head")
        except sa.exc.OperationalError as error:
            raise Unreachable(f"the database does not answer: {error.orig}", hint="is its server up?") from None

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that only reads: everything in it is seen at one moment."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that may write. All of it happens, or, if the block raises, nothing."""
        with self.engine.connect().execution_options(sandlot_write=True) as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Closes the pooled connections."""
        self.engine.dispose()


def _engine(url: str) -> sa.Engine:
    try:
        return sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"), pool_size=16, max_overflow=48)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
        hint = "write it like postgresql+psycopg://user@host/name"
        raise Invalid(f"the database's URL cannot be read: {error}", hint=hint) from None
    except ModuleNotFoundError as error:
        hint = f"pip install {error.name}, or leave database_url empty for SQLite"
        raise MissingDependency(f"the driver {error.name} of the database is not installed", hint=hint) from None


def lock(connection: sa.Connection, column: sa.Column[str], *, value: str) -> None:
    """Holds the row whose key is `value` until the transaction ends, so that who writes what belongs to it goes alone.

    On SQLite there is nothing to do: a write transaction is alone in the whole database.
    """
    connection.execute(sa.select(column).where(column == value).with_for_update())


def upsert(connection: sa.Connection, table: sa.Table, *, values: dict[str, Any], add: str | None = None) -> None:
    """Inserts a row, or updates the one with its primary key; `add` names a column that is added to instead of set."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    keys = [column.name for column in table.primary_key.columns]
    statement = insert(table).values(**values)
    changes: dict[str, Any] = {
        name: table.c[name] + statement.excluded[name] if name == add else statement.excluded[name]
        for name in values
        if name not in keys
    }
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes))


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # The transactions are begun below, where it is known whether they write.
    cursor = connection.cursor()
    for pragma in _SQLITE_PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    write = connection.get_execution_options().get("sandlot_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
