"""What Executable.explain() gives: a text that notebooks show as a table."""
import html
import json

_CELL = "style='text-align:left;padding:1px 8px;white-space:nowrap'"


class Explanation(str):
    """The text of an explanation. `data` is the same as a dict (docs/explain.md has its members), `stats` what Executable.stats() was then."""

    def __new__(cls, text, data, page, stats):
        self = super().__new__(cls, text)
        self._json, self._page, self.stats = data, page, stats
        return self

    @property
    def data(self):
        return json.loads(self._json)

    def save(self, path):
        """Writes the page of `tenon explain --html`: one file, which loads nothing."""
        with open(path, "w", encoding="utf-8") as f:
            f.write(self._page)

    def _repr_html_(self):
        """A table of the steps, and the text to unfold. It needs no script, so that it is shown wherever the notebook is."""
        data = self.data
        timed = data["runs"] > 0
        most = max([s.get("share", 0) for s in data["steps"]] + [1e-9])
        head = ["step"] + (["time, us", "share", "x bound"] if timed else []) + ["operators", "code", "source"]
        rows = "".join(f"<th {_CELL}>{h}</th>" for h in head)
        table = f"<tr>{rows}</tr>" + "".join(_row(s, timed, most) for s in data["steps"])
        stats = ", ".join(f"{html.escape(k)} {html.escape(str(v))}" for k, v in self.stats.items())
        return (f"<div class='tenon-explain'><div style='max-height:30em;overflow:auto'><table>{table}</table></div><p>{stats}</p>"
                f"<details><summary>As text</summary><pre>{html.escape(self)}</pre></details></div>")


def _row(step, timed, most):
    cells = ["&nbsp;" * 4 * step["depth"] + str(step["number"])]
    if timed and step["calls"]:
        share = step["share"]
        bar = f"<span style='display:inline-block;height:.7em;width:{6 * share / most:.2f}em;background:#0b66b5'></span>"
        cells += [f"{step['us']:.2f}", f"{bar} {100 * share:.1f}%", f"{step['times_bound']:.1f}" if step["times_bound"] else ""]
    elif timed:
        cells += ["", "", ""]
    refused = f" (refused: {step['refused']})" if step["refused"] else ""
    cells += [_cut(step["operators"] + refused, 60), _cut(step["code"], 40)]
    cells.append(_cut("; ".join(_source(line) for line in step["source"]), 50))
    return "<tr>" + "".join(f"<td {_CELL}>{c}</td>" for c in cells) + "</tr>"


def _source(line):
    place = f"{line['file']}:{line['line']}" if line["file"] else ""
    return " ".join(word for word in (place, line["module"]) if word)


def _cut(text, most):
    short = text if len(text) <= most else text[: most - 1] + "…"
    return f"<span title='{html.escape(text)}'>{html.escape(short)}</span>"
