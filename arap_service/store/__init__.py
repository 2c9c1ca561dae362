"""Where the service keeps what must survive: engines, tables, named statements, migrations."""
