"""Writes dashboards/*.json, the Grafana dashboards over what ``cnibench report --format
openmetrics`` gave to a Prometheus. Made with Grafana's Foundation SDK:

    .tox/tests/bin/python release/dashboards.py
"""

from __future__ import annotations

from pathlib import Path

from grafana_foundation_sdk.builders import (
    barchart,
    dashboard,
    prometheus,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import StackingMode, VisibilityMode
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    VariableRefresh,
)

from cnibench.cpp import colors, taxonomy
from cnibench.reports._looks import listed

FOLDER = Path(__file__).parents[1] / "dashboards"
SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
_PLACES = ("testbed", "workload", "placement")
# One run of a comparison, and every run of a history. Prometheus forgets a point after five
# minutes: each point of a graph looks back as far as the one before it.
_CHOSEN = ",".join(f'{name}=~"${name}"' for name in _PLACES)
_RUN = f'run=~"$run",{_CHOSEN}'


def comparison() -> dashboard.Dashboard:
    """The newest figures of the runs that are chosen."""
    made = _dashboard("cnibench-comparison", "cnibench: comparison", "now-1y")
    made.with_variable(_variable("run", "label_values(cnibench_run_info, run)", multi=False))
    made.with_panel(_ratios())
    for title, metric, unit in (
        ("Throughput", "cnibench_throughput_bits_per_second", "bps"),
        ("Transactions per second", "cnibench_transaction_rate_per_second", "ops"),
    ):
        panel = barchart.Panel().title(f"{title}, mean over parameters").unit(unit).x_field("label")
        medians = _last(f'{metric}{{{_RUN},statistic="median"}}')
        query = f"avg by (label, placement) ({medians})"
        made.with_panel(_table(panel.height(9).span(12), query, "placement"))
    cycles = barchart.Panel().title("Cycles per packet by component").x_field("label")
    cycles.stacking(StackingMode.NORMAL).height(12).span(24)
    for component in (*taxonomy.load().components, *colors.stacking()[-2:]):
        cycles.override_by_name(component, _fixed(colors.color(component)))
    run = 'run=~"$run",workload=~"$workload",placement=~"$placement"'
    means = f"avg by (label, component) ({_last(f'cnibench_packet_cycles{{{run}}}')})"
    return made.with_panel(_table(cycles, means, "component"))


def _ratios() -> table.Panel:
    """A row for each pair: ratio, interval, and what is proven. The three queries have the same
    labels, those of the verdict, so that their rows merge.
    """
    panel = table.Panel().title("Ratio to the other profile").datasource(SOURCE).height(12).span(24)
    verdict = f"({_last(f'cnibench_verdict{{{_RUN}}}')} == 1)"
    for statistic in ("ratio", "ci_low", "ci_high"):
        ratio = _last(f'cnibench_ratio{{{_RUN},statistic="{statistic}"}}')
        joined = f"{verdict} * ignoring (cnibench_verdict, statistic) group_left () {ratio}"
        query = prometheus.Dataquery().expr(joined).instant().format("table")
        panel.with_target(query.ref_id(statistic).datasource(SOURCE))
    names = ["workload", "placement", "metric", "label", "against", "cnibench_verdict"]
    names += [f"Value #{statistic}" for statistic in ("ratio", "ci_low", "ci_high")]
    return panel.with_transformation(
        DataTransformerConfig(id_val="merge", options={})
    ).with_transformation(
        DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"names": names}})
    )


def history() -> dashboard.Dashboard:
    """Each figure over time: a point is the mean of the runs in its interval."""
    made = _dashboard("cnibench-history", "cnibench: history", "now-90d")
    made.with_panel(
        _band(
            timeseries.Panel().title("Ratio with its 95 % interval").unit("percentunit"),
            "cnibench_ratio",
            ("ratio", "ci_low", "ci_high"),
            "{{label}} / {{against}}",
        )
    )
    for title, metric, unit in (
        ("Throughput", "cnibench_throughput_bits_per_second", "bps"),
        ("Transactions per second", "cnibench_transaction_rate_per_second", "ops"),
    ):
        panel = timeseries.Panel().title(title).unit(unit)
        made.with_panel(_band(panel, metric, ("median", "ci_low", "ci_high"), "{{label}}"))
    failed = statetimeline.Panel().title("Blocks that gave no figure").height(8).span(24)
    blocks = f"max by (label) ({_mean(f'cnibench_failed_blocks{{{_CHOSEN}}}')})"
    query = prometheus.Dataquery().expr(blocks).range().legend_format("{{label}}")
    return made.with_panel(failed.datasource(SOURCE).with_target(query.datasource(SOURCE)))


def _dashboard(uid: str, title: str, begin: str) -> dashboard.Dashboard:
    made = dashboard.Dashboard(title).uid(uid).tags(["cnibench"]).time(begin, "now")
    made.readonly().with_variable(
        dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus")
    )
    for name in _PLACES:
        made.with_variable(_variable(name, f"label_values(cnibench_blocks, {name})"))
    return made


def _variable(name: str, query: str, multi: bool = True) -> dashboard.QueryVariable:
    made = dashboard.QueryVariable(name).query(query).datasource(SOURCE)
    made.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    return made.multi(multi).include_all(multi)


def _last(series: str) -> str:
    return f"last_over_time({series}[$__range])"


def _mean(series: str) -> str:
    return f"avg without (run) (last_over_time({series}[$__interval]))"


def _table(panel: barchart.Panel, expression: str, columns: str) -> barchart.Panel:
    """The newest values, a row for each label and a column for each value of ``columns``."""
    query = prometheus.Dataquery().expr(expression).instant().format("table").datasource(SOURCE)
    matrix = {"rowField": "label", "columnField": columns, "valueField": "Value"}
    panel.with_transformation(DataTransformerConfig(id_val="groupingToMatrix", options=matrix))
    return panel.datasource(SOURCE).with_target(query)


def _band(
    panel: timeseries.Panel, metric: str, statistics: tuple[str, ...], legend: str
) -> timeseries.Panel:
    """One line for each statistic of each profile, joined over the days without a run."""
    panel.height(9).span(24).span_nulls(True).show_points(VisibilityMode.ALWAYS)
    panel.datasource(SOURCE)
    for color, labels in _labels().items():
        # A label may be followed by its implementation of Services, and is by the statistic.
        panel.override_by_regexp(f"/^({'|'.join(labels)})(\\+\\w+)? /", _fixed(color))
    for statistic in statistics:
        series = f'{metric}{{{_CHOSEN},statistic="{statistic}"}}'
        query = prometheus.Dataquery().expr(_mean(series)).range().ref_id(statistic)
        panel.with_target(query.legend_format(f"{legend} {statistic}").datasource(SOURCE))
    return panel


def _labels() -> dict[str, list[str]]:
    """The profiles with a look of their own, by the colour that they have in every chart."""
    found: dict[str, list[str]] = {}
    for label, look in listed().items():
        found.setdefault(look.color, []).append(label)
    return found


def _fixed(color: str) -> list[DynamicConfigValue]:
    return [DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": color})]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for made in (comparison(), history()):
        built = made.build()
        text = JSONEncoder(sort_keys=True, indent=2).encode(built)
        (FOLDER / f"{built.uid}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
