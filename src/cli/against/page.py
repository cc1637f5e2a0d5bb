"""The figures of against.py as a table for a terminal, and as a page for a browser, which needs nothing but itself."""
import html, os


def milliseconds(ms):
    if ms is None:
        return "-"
    return f"{ms / 1e3:.2f} s" if ms >= 1e3 else f"{ms:.0f} ms" if ms >= 100 else f"{ms:.1f} ms" if ms >= 10 else f"{ms:.3g} ms" if ms >= 1 else f"{ms * 1e3:.3g} us"


def cells(row):
    """The row of an engine: texts."""
    if row["status"] in ("failed", "not installed"):
        return [row["engine"], row["version"], f"{row['status'].upper()}: {row['note']}"]
    difference = row.get("difference")
    return [row["engine"], row["version"], milliseconds(row.get("first_result_ms")), milliseconds(row.get("median_ms")),
            f"{milliseconds(row['low_ms'])} .. {milliseconds(row['high_ms'])}", milliseconds(row["p90_ms"]), f"{row['times_tenon']:.2f}", f"{row['peak_rss_mb']:.0f} MB",
            f"{row['convert_s']:.1f} s" if "convert_s" in row else "-", "-" if difference is None else difference if isinstance(difference, str) else f"{difference:.1e}"]


FIRST = "First results: from the start of the process, with imports, loading and what is compiled there, of a file that was converted before."
HEAD = ["engine", "version", "first result", "median", "rounds' medians", "p90", "x tenon", "memory", "conversion", "difference"]


def notes(report):
    """What must be known beside the figures, a line each."""
    lines = []
    for row in report["engines"]:
        if row["status"] == "differs":
            lines.append(f"{row['engine']}: RESULTS DIFFER from tenon's")
        if row["status"] in ("ok", "differs") and row.get("note") and row["note"] != row.get("difference"):
            lines.append(f"{row['engine']}: {row['note']}")
        if row.get("disturbed_rounds"):
            lines.append(f"{row['engine']}: other processes were busy in {row['disturbed_rounds']} of {len(row['rounds'])} rounds")
    if any(r["runs"] < 10 for row in report["engines"] for r in row["rounds"]):
        lines.append("fewer than 10 runs in a round: more --seconds make the figures better, tenon's most, as its rounds begin with a new process")
    return lines


def title(report):
    return f"{os.path.basename(report['model'])}, {report['threads']} thread{'s' * (report['threads'] != 1)} of {report['machine']}, {report['when']}"


def table_of(report):
    rows = [HEAD] + [cells(r) for r in report["engines"]]
    full = [r for r in rows if len(r) == len(HEAD)]
    widths = [max(len(r[i]) for r in (full if i > 1 else rows)) for i in range(len(HEAD))]
    lines = [title(report)]
    for row in rows:
        if len(row) < len(HEAD):
            lines.append(f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}")
        else:
            lines.append("  ".join(f"{c:{w}}" if i < 2 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(row, widths))).rstrip())
    return "\n".join(lines + notes(report) + [FIRST])


def bars(report, key, what):
    """Bars of one figure, the quickest first; whiskers are the spread of the rounds."""
    rows = sorted((r for r in report["engines"] if r["status"] in ("ok", "differs") and r.get(key) is not None), key=lambda r: r[key])
    if not rows:
        return ""
    most = max(max(r[key], r.get("high_ms", 0) if key == "median_ms" else 0) for r in rows)
    parts, y = [], 0
    for row in rows:
        width = 480 * row[key] / most
        parts.append(f'<text class="name" x="112" y="{y + 17}">{html.escape(row["engine"])}</text>'
                     f'<rect class="{"own" if row["engine"] == "tenon" else "other"}" x="120" y="{y + 3}" width="{max(width, 1):.1f}" height="20"/>')
        end = width
        if key == "median_ms":
            low, high = (120 + 480 * row[k] / most for k in ("low_ms", "high_ms"))
            parts.append(f'<path class="spread" d="M{low:.1f} {y + 13}H{high:.1f}M{low:.1f} {y + 8}v10M{high:.1f} {y + 8}v10"/>')
            end = high - 120
        parts.append(f'<text x="{128 + end:.1f}" y="{y + 17}">{milliseconds(row[key])}</text>')
        y += 28
    said = "; ".join(f"{r['engine']} {milliseconds(r[key])}" for r in rows)
    return f'<h2>{what}</h2><svg viewBox="0 0 720 {y}" width="720" role="img" aria-label="{html.escape(f"{what}: {said}")}">{"".join(parts)}</svg>'


STYLE = """:root{color-scheme:light dark;--own:#0b57d0;--other:#6e7781;--text:#1b1f24;--back:#fff;--line:#c4cad1}
@media(prefers-color-scheme:dark){:root{--own:#7cacf8;--other:#9aa4af;--text:#e6e9ed;--back:#14171a;--line:#454c54}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);max-width:72em;margin:2em auto;padding:0 1em}
svg{max-width:100%;height:auto}svg text{fill:var(--text);font-size:13px}.name{text-anchor:end}.own{fill:var(--own)}.other{fill:var(--other)}
.spread{stroke:var(--text);fill:none}table{border-collapse:collapse;display:block;overflow-x:auto}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
td:first-child,th:first-child,td:nth-child(2),th:nth-child(2),td[colspan]{text-align:left}td[colspan]{white-space:normal;font-weight:bold}"""


def html_of(report):
    head = "".join(f"<th scope=col>{html.escape(h)}</th>" for h in HEAD)
    body = ""
    for row in report["engines"]:
        texts = cells(row)
        body += f'<tr title="{html.escape(row["what"])}">' + "".join(f"<td{f' colspan={len(HEAD) - 2}' if len(texts) < len(HEAD) and i == 2 else ''}>{html.escape(t)}</td>"
                                                                     for i, t in enumerate(texts)) + "</tr>"
    lines = "".join(f"<li>{html.escape(n)}</li>" for n in notes(report))
    whats = "".join(f"<li>{html.escape(r['engine'])}: {html.escape(r['what'])}</li>" for r in report["engines"])
    return (f'<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width"><title>{html.escape(title(report))}</title><style>{STYLE}</style>'
            f"<h1>{html.escape(os.path.basename(report['model']))}</h1><p>{html.escape(title(report))}. Each engine has a process of its own; they take turns in rounds of {report['seconds']:g} s."
            f" Whiskers: the least and the largest median of the rounds. {FIRST}</p>{bars(report, 'median_ms', 'Median of a run')}"
            f"{bars(report, 'first_result_ms', 'First result, from the start of the process')}<h2>All figures</h2><table tabindex=0><tr>{head}</tr>{body}</table><ul>{lines}</ul><h2>Engines</h2><ul>{whats}</ul></html>\n")
