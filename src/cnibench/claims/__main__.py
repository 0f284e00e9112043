"""Writes the JSON Schema of the studies' files."""

from __future__ import annotations

from cnibench.claims.model import FOLDER, schema_text

(FOLDER / "schema.json").write_text(schema_text())
