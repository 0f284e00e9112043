"""The run directory: its schema, chain, writer, reader and verification."""
