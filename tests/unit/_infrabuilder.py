"""Results in the format of infrabuilder's benchmark, with invented figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def all_results(change: Callable[[dict[str, str]], None] = lambda values: None) -> str:
    """A file of the format, with invented figures."""
    values: dict[str, str] = {}
    for path in "DS":
        for transport in "TU":
            for streams in "MS":
                test = f"{path}{transport}{streams}"
                for side in ("CLIENT", "SERVER"):
                    values |= {
                        f"{test}_{side}_SYSTEM": "0.50",
                        f"{test}_{side}_USER": "0.25",
                        f"{test}_{side}_MEM": "1000000",
                    }
                values[f"{test}_BW"] = "9000000000.5"
                values |= (
                    {f"{test}_RTS": "12"}
                    if transport == "T"
                    else {f"{test}_JITTER": "0.01", f"{test}_LOST": "5"}
                )
    for side in ("CLIENT", "SERVER"):
        values |= {
            f"IDLE_{side}_SYSTEM": "0.01",
            f"IDLE_{side}_USER": "0.02",
            f"IDLE_{side}_MEM": "900000",
        }
    change(values)
    return "".join(f"{key}={value}\n" for key, value in values.items())


def tree(
    folder: Path, names: tuple[str, ...] = ("flannel", "antrea"), repeats: int = 7, **broken: str
) -> Path:
    for name in names:
        for repeat in range(1, repeats + 1):
            file = folder / "bench" / name / str(repeat) / "all.results"
            file.parent.mkdir(parents=True)

            def change(values: dict[str, str], name: str = name, repeat: int = repeat) -> None:
                values["DTS_BW"] = str((9e9 if name == "flannel" else 6e9) + repeat * 1e7)
                if name == "antrea" and repeat == 2:
                    values.update(broken)

            file.write_text(all_results(change))
    return folder / "bench"
