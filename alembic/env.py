"""Runs the migrations of one side, service or gate, on a connection that the side's own runner opened and locked."""

from alembic import context

given = context.config.attributes  # side, metadata and connection: set by the runner
metadata = given["metadata"]

context.configure(
    connection=given["connection"],
    target_metadata=metadata,
    version_table=f"{given['side']}_version",
    render_as_batch=True,
    transactional_ddl=True,
    # Both sides may share one database; each looks at its own tables only.
    include_name=lambda name, kind, _: kind != "table" or name in metadata.tables,
)
with context.begin_transaction():
    context.run_migrations()
