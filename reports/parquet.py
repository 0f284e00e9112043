"""The results as a Parquet file, the same rows as the CSV has, written by DuckDB."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cnibench.analysis.model import Analysis
from cnibench.reports._flat import COLUMNS, rows
from cnibench.system import scratch
from cnibench.system.files import check_relative


class ParquetReport:
    """Bytes of one Parquet file, compressed by zstd."""

    name = "parquet"
    suffix = ".parquet"

    def render(self, analysis: Analysis) -> bytes:
        import duckdb

        check_relative(Path())  # DuckDB looks where it is
        types = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
        with scratch.folder() as folder, duckdb.connect(config={"threads": "1"}) as database:
            source, target = folder / "rows.json", folder / "rows.parquet"
            source.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows(analysis)))
            reading = f"read_json(?, format = 'newline_delimited', columns = {{{types}}})"
            database.execute(f"CREATE TABLE results AS SELECT * FROM {reading}", [str(source)])
            database.execute(f"COPY results TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
            return target.read_bytes()


PROVIDER = ParquetReport()
