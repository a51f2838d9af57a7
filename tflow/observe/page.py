"""Reports: one HTML page that needs nothing else, neither files nor a network, and reads without scripts, too."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape

import tflow
from tflow.drawing.chart import HUES, chart_svg
from tflow.drawing.chart import short as number
from tflow.drawing.svg import svg
from tflow.observe.bottleneck import LEAST, Times, annotated, times_of, verdict
from tflow.observe.charts import learning_charts, training_charts
from tflow.observe.groups import Group, all_settings, differences, envs_of, grouped, overall
from tflow.observe.kept import KeptRun, Setting
from tflow.observe.page_style import SCRIPT, style
from tflow.observe.view import clock

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Browsers load nothing for this page, whatever it says."""
SCORE = (
    "A score is the mean of the evaluations in the last tenth of a run, or its last mean return if it was not evaluated. Of "
    "several runs with one seed, the longest counts."
)
UNMEASURED = "This run folder has no measurements of its operators: an earlier version wrote it, or nothing was reported yet."
MEASURED = (
    "Items per second on the edges; in the boxes, how busy an operator was, what it held back on average and at most, and how "
    "many updates old its items were."
)
MOST_WARNINGS = 12
MOST_DEATHS = 50


def page(runs: Sequence[KeptRun], *, refresh_s: float | None = None) -> str:
    """The report of some runs.

    Args:
        runs: What it is about; runs that differ by their seeds only are taken together.
        refresh_s: Seconds after which a browser loads it anew; None: never.
    """
    groups = grouped(runs)
    title = title_of(groups)
    again = "" if refresh_s is None else f'<meta http-equiv="refresh" content="{refresh_s:g}">'
    body = [head_of(title, groups), *sections(groups)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">{again}'
        f"<title>{escape(title)}</title><style>{style()}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + f"\n<footer>{footer()}</footer></main>\n<script>{SCRIPT}</script></body></html>\n"
    )


def footer() -> str:
    return f"Written by tflow {escape(tflow.__version__)} on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."


def title_of(groups: Sequence[Group]) -> str:
    """What the report is about."""
    runs = [run for group in groups for run in group.runs]
    named = runs[0].plan.get("title") if len(groups) == 1 else None
    first = str(named or f"{runs[0].algorithm} on {runs[0].env}")
    if len(runs) == 1:
        return first
    if len(groups) == 1:
        return f"{first}, {len(runs)} {'seeds' if len(groups[0].counted) == len(runs) else 'runs'}"
    envs = envs_of(groups)
    return f"{len(groups)} kinds of runs on {envs[0] if len(envs) == 1 else f'{len(envs)} envs'}"


def head_of(title: str, groups: Sequence[Group]) -> str:
    runs = [run for group in groups for run in group.runs]
    states = "".join(f" {state_of(run)}" for run in runs[:1]) if len(runs) == 1 else ""
    folders = ", ".join(dict.fromkeys(run.name if len(runs) == 1 else run.family for run in runs))
    head = f'<header><h1>{escape(title)}</h1><p class="quiet"><span class="code">{escape(folders)}</span>{states}</p></header>'
    return head + (tiles(groups[0]) if len(groups) == 1 else "")


def sections(groups: Sequence[Group]) -> Iterator[str]:
    yield from warnings_of(groups)
    for env in envs_of(groups):
        yield learning([group for group in groups if group.env == env], alone=len(envs_of(groups)) == 1)
    if len(groups) > 1:
        yield section("Scores", scores(groups))
    yield section("Where the time goes", folded(groups, where_the_time_goes))
    yield section("The plan", folded(groups, plan_of))
    for env in envs_of(groups):
        drawn = training_charts([group for group in groups if group.env == env])
        if drawn:
            charts = "".join(f"<div>{chart_svg(each, 300, 190)}</div>" for each in drawn)
            of = "" if len(envs_of(groups)) == 1 else f" on {escape(env)}"
            shown = [group for group in groups if group.env == env]
            yield section(f"Training{of}", f'{legend(shown)}<div class="small">{charts}</div>', escaped=True)
    yield section("Calls, items, deaths", folded(groups, ledger))
    yield section("Configuration", configuration(groups))
    yield section("Runs", runs_table([run for group in groups for run in group.runs]))


def section(title: str, body: str, *, escaped: bool = False) -> str:
    return f"<section><h2>{title if escaped else escape(title)}</h2>{body}</section>"


def folded(groups: Sequence[Group], part: object) -> str:
    """A part for each group: of several, all but the first are folded."""
    assert callable(part)
    bodies = [str(part(group)) for group in groups]
    if len(groups) == 1:
        return bodies[0]
    return "".join(
        f"<details{' open' if place == 0 else ''}><summary>{escape(group.name)}"
        f"{'' if len(envs_of(groups)) == 1 else escape(f' on {group.env}')}</summary>{body}</details>"
        for place, (group, body) in enumerate(zip(groups, bodies, strict=True))
    )


def state_of(run: KeptRun) -> str:
    kinds = ("finished", "failed", "killed", "interrupted", "running")
    return f'<span class="state {run.state if run.state in kinds else "unknown"}">{escape(run.state)}</span>'


# --------------------------------------------------------------------------- results


def tiles(group: Group) -> str:
    """The numbers that one looks for first."""
    run, several = group.runs[0], len(group.runs) > 1
    found: list[tuple[str, str]] = []
    estimate = group.estimate
    if several and estimate is not None:
        found.append((number(estimate.value), worth_of(group, estimate)))
    last = run.last
    if not several:
        found += [(number(last[name]), worded(name)) for name in run.returns if name in last]
        if run.evaluations:
            found.append((number(run.evaluations[-1][1]), f"latest of {len(run.evaluations)} evaluations"))
        best = run.status.get("best_evaluation") or run.status.get("best_chosen_by")
        if isinstance(best, (int, float)):
            found.append((number(best), "best policy"))
    steps = sum(each.last.get("env_steps", 0) for each in group.runs)
    seconds = sum(each.seconds or 0 for each in group.runs)
    updates = sum(each.last.get("updates", 0) for each in group.runs)
    found += [(number(steps), "env steps")] if steps else []
    found += [(number(updates), "updates")] if updates else []
    found += [(clock(seconds), "time" if len(group.runs) == 1 else "time of all runs")] if seconds else []
    found += [(number(steps / seconds), "env steps per second")] if seconds and steps else []
    if not found:
        return '<p class="quiet">Nothing has been reported yet.</p>'
    return '<ul class="tiles">' + "".join(f"<li><b>{escape(v)}</b><span>{escape(k)}</span></li>" for v, k in found) + "</ul>"


def worth_of(group: Group, estimate: object) -> str:
    """Of how many seeds a score is."""
    seeds = len(group.scores)
    return "score of 1 seed" if seeds == 1 else f"interquartile mean of {seeds} seeds, 95 %: {interval(estimate)}"


def worded(name: str) -> str:
    return "mean return, last 100 episodes" if name == "return" else f"{name.removesuffix('/return')}: mean return"


def interval(estimate: object) -> str:
    low, high = getattr(estimate, "low"), getattr(estimate, "high")  # noqa: B009  # of rl, which is not loaded for its type
    return f"{number(low)} to {number(high)}"


def warnings_of(groups: Sequence[Group]) -> Iterator[str]:
    found = [
        (run, each.get("warning", "")) for group in groups for run in group.runs for each in run.status.get("warnings") or ()
    ]
    failed = [run for group in groups for run in group.runs if run.state in ("failed", "killed")]
    if found or failed:
        several = sum(len(group.runs) for group in groups) > 1
        lines = [f"{run.name}: {run.status.get('outcome') or run.state}." for run in failed]
        lines += [f"{run.name}: {said}" if several else str(said) for run, said in found[:MOST_WARNINGS]]
        lines += [f"... and {len(found) - MOST_WARNINGS} more."] if len(found) > MOST_WARNINGS else []
        yield section("Signs of trouble", "".join(f'<p class="warning">{escape(each)}</p>' for each in lines))


def learning(groups: Sequence[Group], *, alone: bool) -> str:
    """Learning curves and evaluations on one env."""
    title = "Learning" if alone else f"Learning on {groups[0].env}"
    drawn = learning_charts(groups)
    if not drawn:
        return section(title, '<p class="quiet">No episode has ended yet, and nothing was evaluated.</p>')
    charts = "".join(
        f'<div><div class="right">{chart_svg(each, 520, 300)}</div><div class="down">{chart_svg(each, 360, 260)}</div></div>'
        for each in drawn
    )
    seeds = max(len(group.counted) for group in groups)
    said = (
        "Strong lines are interquartile means over seeds, bands their 95 % bootstrap intervals, thin lines single runs."
        if seeds > 1
        else ""
    )
    note = f'<p class="quiet">{said}</p>' if said else ""
    return section(title, f'{legend(groups)}<div class="big">{charts}</div>{note}')


def legend(groups: Sequence[Group]) -> str:
    if len(groups) < 2:
        return ""
    lines = []
    for place, group in enumerate(groups):
        dashes = "" if place < HUES else ' stroke-dasharray="6 3"'
        line = f'<path class="s{place % HUES} c-line" d="M0 5H24"{dashes}/>'
        lines.append(f'<li><svg viewBox="0 0 24 10" aria-hidden="true">{line}</svg>{escape(group.name)}</li>')
    return f'<ul class="legend">{"".join(lines)}</ul>'


def scores(groups: Sequence[Group]) -> str:
    """What each group is worth."""
    rows = []
    for group in groups:
        estimate, steps = group.estimate, [run.last.get("env_steps", 0) for run in group.runs]
        value = "-" if estimate is None else number(estimate.value)
        between = "-" if estimate is None or len(group.scores) < 2 else interval(estimate)
        seconds = sum(run.seconds or 0 for run in group.runs) / len(group.runs)
        cells = (value, between, group.count, number(max(steps)), clock(seconds))
        numbers = "".join(f'<td class="n">{escape(each)}</td>' for each in cells)
        rows.append(f"<tr><td>{escape(group.name)}</td><td>{escape(group.env)}</td>{numbers}</tr>")
    heads = "".join(f'<th class="n">{each}</th>' for each in ("IQM", "95 %", "runs", "env steps", "time"))
    body = f'<p class="quiet">{SCORE}</p>{table(f"<th>what</th><th>env</th>{heads}", rows)}'
    united = overall(groups)
    if united:
        best = sorted(united.items(), key=lambda item: -item[1].value)
        cells_of = {name: (f"{each.value:.2f}", interval(each)) for name, each in best}
        rows = [
            f"<tr><td>{escape(name)}</td>{''.join(f'<td class=n>{each}</td>' for each in cells)}</tr>"
            for name, cells in cells_of.items()
        ]
        body += "<h3>Over all envs</h3><p class='quiet'>Scores of an env from 0, its lowest run, to 1, its highest.</p>"
        body += table('<th>what</th><th class="n">IQM</th><th class="n">95 %</th>', rows)
    return body


def table(head: str, rows: Iterable[str]) -> str:
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


# --------------------------------------------------------------------------- the plan at work


def where_the_time_goes(group: Group) -> str:
    """A sentence, and a bar per operator, place by place."""
    run, times = measured(group)
    if times is None:
        return f'<p class="quiet">{UNMEASURED}</p>'
    parts = [of_which(group, run), f'<p class="verdict">{escape(verdict(times))}</p>']
    for place, works in times.by_place().items():
        count = works[0].actors
        beside = ", side by side" if times.side_by_side else ""
        where = "In the driver" if place == "driver" else f"In {place}" + (f", {count} actors{beside}" if count > 1 else "")
        hue = "s2" if place == "driver" else "s0"
        bars = "".join(
            f'<div class="work"><span class="code">{escape(work.label)}</span><span class="bar"><i class="{hue}" '
            f'style="width:{work.share:.1%}"></i></span><span class="n">{work.share:.1%}</span></div>'
            for work in works
            if work.share >= LEAST
        )
        if bars:
            parts.append(f"<h3>{escape(where)}</h3>{bars}")
    return "".join([*parts, f'<p class="quiet">{escape(rest_of(times))}</p>'])


def rest_of(times: Times) -> str:
    """What no operator accounts for."""
    if times.side_by_side:
        return (
            f"Shares are of {times.seconds:,.1f} s, for actors of the time of all of their kind. The driver waited "
            f"{times.waited:.0%} of the time."
        )
    rest = max(0.0, 1 - sum(work.share for work in times.works))
    return f"Shares are of {times.seconds:,.1f} s; {rest:.0%} is tflow itself, and what callbacks do."


def measured(group: Group) -> tuple[KeptRun, Times | None]:
    """The first run of a group that has measurements."""
    for run in group.runs:
        times = times_of(run)
        if times is not None:
            return run, times
    return group.runs[0], None


def of_which(group: Group, run: KeptRun) -> str:
    return f'<p class="quiet">Measured in {escape(run.name)}.</p>' if len(group.runs) > 1 else ""


def plan_of(group: Group) -> str:
    """The plan, drawn twice: for wide and for narrow screens."""
    run, times = measured(group)
    drawing = annotated(run)
    if drawing is None:
        return kept_picture(run)
    wide, narrow = svg(drawing), svg(drawing, down=True)
    pictures = [("right", wide), ("down", narrow)] if wide != narrow else [("", wide)]
    shown = "".join(f'<div class="{kind} scroll">{fitting(picture)}</div>' for kind, picture in pictures)
    said = "" if times is None else MEASURED
    return f'{of_which(group, run)}<div class="plan">{shown}</div><p class="quiet">{said}</p>'


def kept_picture(run: KeptRun) -> str:
    """The picture that an earlier version of tflow has left: as an image, in which nothing can run."""
    try:
        drawn = b64encode((run.path / "plan.svg").read_bytes()).decode()
    except OSError:
        return '<p class="quiet">This run folder does not say what its plan was.</p>'
    return f'<div class="plan scroll"><img alt="The plan" src="data:image/svg+xml;base64,{drawn}"></div>'


def fitting(picture: str) -> str:
    """A drawing at its natural size, or smaller down to where it can still be read; then it is scrolled."""
    head, _, rest = picture.partition(" width=")
    wide = float(rest.partition('"')[2].partition('"')[0])
    return f'{head} style="min-width:{min(wide, max(wide * 0.62, 300)):.0f}px" width={rest}'


def ledger(group: Group) -> str:
    """Where all calls and items went, and who died."""
    run, _ = measured(group)
    found = run.stats.get("ledger")
    if not isinstance(found, dict):
        return '<p class="quiet">This run folder has no ledger.</p>'
    calls, items = found["calls"], found["items"]
    dropped = dict(items.get("dropped", {}))
    rows = [
        row_of("calls to actors", calls["issued"], {key: calls[key] for key in ("answered", "in_flight", "lost", "abandoned")}),
        row_of(
            "items from actors",
            items["received"],
            {
                "delivered": items["delivered"],
                "buffered": items["buffered"],
                **{f"dropped, {why}": n for why, n in dropped.items()},
            },
        ),
    ]
    return of_which(group, run) + table('<th></th><th class="n">all</th><th>of these</th>', rows) + deaths_of(run)


def row_of(name: str, whole: int, parts: dict[str, int]) -> str:
    shown = ", ".join(f"{count:,} {key.replace('_', ' ')}" for key, count in parts.items() if count) or "none"
    return f'<tr><td>{name}</td><td class="n">{whole:,}</td><td>{escape(shown)}</td></tr>'


def deaths_of(run: KeptRun) -> str:
    deaths = run.stats.get("deaths") or []
    if not deaths:
        return '<p class="quiet">No actor died.</p>'
    back = sum(each.get("back_after") is not None for each in deaths)
    said = f"{len(deaths)} {'death' if len(deaths) == 1 else 'deaths'}, {back} restarted."
    rows = []
    for each in deaths[:MOST_DEATHS]:
        after = "" if each.get("back_after") is None else f"after {each['back_after']:.1f} s"
        actor, why = escape(str(each["actor"])), escape(str(each["why"]))
        rows.append(
            f'<tr><td class="n">{each["seconds"]:,.1f} s</td><td class="code">{actor}</td><td>{after}</td><td>{why}</td></tr>'
        )
    heads = '<th class="n">at</th><th>actor</th><th>restarted</th><th>why</th>'
    return f"<h3>{said}</h3>{table(heads, rows)}"


# --------------------------------------------------------------------------- settings and runs


def configuration(groups: Sequence[Group]) -> str:
    """What differs from the defaults, and between groups; the rest is folded."""
    if len(groups) == 1:
        return settings_of_one(groups[0].runs[0])
    firsts = [group.runs[0] for group in groups]
    differing = differences([{**all_settings(run), "algo": run.algorithm, "env": run.env} for run in firsts])
    order = sorted(differing, key=lambda name: (name not in ("algo", "env"), name))
    heads = "".join(f"<th>{escape(group.name)}</th>" for group in groups)
    rows = [
        f'<tr><td class="code">{escape(name)}</td>'
        + "".join(f'<td class="code">{"" if value is None else escape(value)}</td>' for value in differing[name])
        + "</tr>"
        for name in order
    ]
    each = "".join(
        f"<details><summary>{escape(group.name)}, all settings</summary>{settings_of_one(run)}</details>"
        for group, run in zip(groups, firsts, strict=True)
    )
    said = '<p class="quiet">What differs between them; an empty cell means that there is no such setting.</p>'
    return (said + table(f"<th></th>{heads}", rows) if rows else "<p>All settings are the same.</p>") + each


def settings_of_one(run: KeptRun) -> str:
    settings = [*run.settings, *run.run_settings]
    if not settings:
        return '<p class="quiet">A plan of one\'s own, which no configuration describes.</p>'
    known = any(each.default is not None for each in settings)
    changed = [each for each in settings if each.changed]
    shown = settings_table(changed, known) if changed else '<p class="quiet">All settings are the defaults.</p>'
    if not known:
        return settings_table(settings, known)
    return f"{shown}<details><summary>All {len(settings)} settings</summary>{settings_table(settings, known)}</details>"


def settings_table(settings: Sequence[Setting], known: bool) -> str:
    rows = [
        f'<tr{" class=changed" if each.changed else ""}><td class="code">{escape(each.name)}</td>'
        f'<td class="code">{escape(each.value)}</td>'
        + (f'<td class="code">{escape("" if each.default is None else each.default)}</td>' if known else "")
        + f"<td>{escape(each.meaning)}</td></tr>"
        for each in settings
    ]
    return table(f"<th>setting</th><th>value</th>{'<th>default</th>' if known else ''}<th></th>", rows)


def runs_table(runs: Sequence[KeptRun]) -> str:
    rows = []
    for run in runs:
        versions = run.status.get("versions")
        said = ", ".join(f"{name} {each}" for name, each in versions.items()) if isinstance(versions, dict) else ""
        when = "" if run.began is None else f"{run.began:%Y-%m-%d %H:%M}"
        cells = ("" if run.seed is None else str(run.seed), number(run.last.get("env_steps", 0)), clock(run.seconds or 0), when)
        numbers = "".join(f'<td class="n">{escape(each)}</td>' for each in cells)
        outcome = str(run.status.get("outcome") or "")
        rows.append(
            f'<tr><td class="code">{escape(run.name)}</td><td>{state_of(run)}</td>{numbers}<td>{escape(outcome)}</td>'
            f"<td>{escape(str(run.status.get('host') or ''))}</td><td>{escape(said)}</td></tr>"
        )
    numbers = "".join(f'<th class="n">{each}</th>' for each in ("seed", "env steps", "time", "began"))
    return table(f"<th>folder</th><th>state</th>{numbers}<th>ended by</th><th>host</th><th>versions</th>", rows)
