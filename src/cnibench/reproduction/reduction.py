"""From a study's plan to one that measures its figures within an hour, and in words what that gave
up.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence

from cnibench.model.units import duration, plural
from cnibench.planning.plan import Plan, Work, build_plan
from cnibench.reproduction.model import WIRE, Figure, Figures, Panel, Series
from cnibench.reproduction.said import Params


def reduced(study: Figures, chosen: Sequence[Figure], plan: Plan) -> tuple[Plan | None, list[str]]:
    """The cells of ``plan`` that ``chosen`` need, in fewer and shorter repeats, and in words what
    differs from the study; None when no figure needs any.
    """
    works = list(dict.fromkeys(_keys(work) for work in _works(study, chosen, plan)))
    made = [Work.model_validate_json(text) for text in works]
    if not made:
        return None, []
    wanted = {name for work in made for name in work.only}
    less = study.reduced
    shorter = build_plan(
        {
            "cni": [name for name in plan.cni if name in wanted],
            "method": less.method,
            "duration": less.duration,
            "warmup": less.warmup,
            "blocks": less.blocks,
            "workload": [work.model_dump(mode="json", exclude_unset=True) for work in made],
        },
        plan,
    )
    return shorter, ["; ".join(_general(study, plan)), *_particular(chosen, plan)]


def _keys(work: Work) -> str:
    return work.model_dump_json(exclude_unset=True)


def _works(study: Figures, chosen: Sequence[Figure], plan: Plan) -> Iterator[Work]:
    for figure in chosen:
        for panel in figure.panels:
            for work in plan.workload:
                for given in work.combinations():
                    names = [
                        series.profile
                        for series in panel.series
                        if fits(panel, series, plan, work, given)
                    ]
                    if names and (params := _kept(figure, work, given)) is not None:
                        yield _work(study, figure, panel, work, names, params)


def _work(
    study: Figures, figure: Figure, panel: Panel, work: Work, names: Sequence[str], params: Params
) -> Work:
    own: dict[str, object] = {"ip": panel.ip} if panel.ip else {}
    if figure.blocks not in (None, study.reduced.blocks):
        own["blocks"] = figure.blocks
    return Work.model_validate(
        {
            "name": work.name,
            "params": params,
            "only": list(dict.fromkeys(names)),
            "placement": panel.placement,
            "windows": panel.window,
            **own,
        }
    )


def fits(panel: Panel, series: Series, plan: Plan, work: Work, given: Params) -> bool:
    """Do these parameters of a plan's workload give points of the series? A reading's parameter
    (``node``, say) is none of the plan's.
    """
    return (
        work.name == panel.workload
        and panel.placement in (work.placement or plan.placement)
        and panel.window in (work.windows or plan.windows)
        and (panel.ip or plan.ip[0]) in (work.ip or plan.ip)
        and (not work.only or any(fnmatch.fnmatchcase(series.profile, one) for one in work.only))
        and all(_is(given, key, value) for key, value in panel.asked(series).items())
        and (panel.kind != "lines" or panel.over in given)
        and _wire(panel, given)
    )


def _is(given: Params, key: str, value: object) -> bool:
    if key in given:
        return given[key] == value
    return "." not in key or value in (0, "default")


def _wire(panel: Panel, given: Params) -> bool:
    """Is it the wire of the panel? A condition stands for a wire other than the plan's."""
    return given.get(WIRE, "default") == panel.params.get(WIRE, "default")


def _kept(figure: Figure, work: Work, given: Params) -> Params | None:
    """The parameters as they are measured, None for a value of a sweep that is left out."""
    params = dict(given)
    for key, value in figure.reduce.items():
        if isinstance(value, list):
            if key in given and given[key] not in value:
                return None
        elif key in given:
            params[key] = value
    return params


def _general(study: Figures, plan: Plan) -> Iterator[str]:
    less = study.reduced
    if less.method != plan.method:
        yield "slices instead of windows where the workload allows it"
    if less.duration != plan.duration:
        yield f"windows of {duration(less.duration)} instead of {duration(plan.duration)}"
    if less.warmup != plan.warmup:
        yield f"warm-ups of {duration(less.warmup)} instead of {duration(plan.warmup)}"
    if less.blocks != plan.blocks:
        yield f"{plural(less.blocks, 'block')} instead of {plan.blocks}"


def _particular(chosen: Sequence[Figure], plan: Plan) -> Iterator[str]:
    """What single figures give up."""
    for figure in chosen:
        for key, value in figure.reduce.items():
            works = [work for work in plan.workload if _of(figure, work, plan)]
            swept = {json_value for work in works for json_value in _scalars(work.sweep.get(key))}
            if isinstance(value, list):
                yield (
                    f"{figure.called}: {key} {', '.join(map(str, value))} of {len(swept)} values"
                )
            else:
                before = next((w.params[key] for w in works if key in w.params), "the plan's")
                yield f"{figure.called}: {key} {value} instead of {before}"


def _of(figure: Figure, work: Work, plan: Plan) -> bool:
    return any(
        work.name == panel.workload and panel.placement in (work.placement or plan.placement)
        for panel in figure.panels
    )


def _scalars(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, list) else []
