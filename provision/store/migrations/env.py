"""Alembic's entrance. The connection is already in a transaction: a migration happens as a whole or not at all."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
