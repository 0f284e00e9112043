"""Writes the JSON Schema of the figures' files."""

from __future__ import annotations

from cnibench.reproduction.model import FOLDER, schema_text

(FOLDER / "schema.json").write_text(schema_text(), encoding="utf-8")
