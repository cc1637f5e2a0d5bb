"""What Executable.explain() gives: a text that notebooks show as HTML."""
import html


class Explanation(str):
    """The text of an explanation; `stats` is what Executable.stats() was then."""

    def __new__(cls, text, stats):
        self = super().__new__(cls, text)
        self.stats = stats
        return self

    def _repr_html_(self):
        """A summary, and each step to unfold: its first line, then its code, times and source."""
        steps, end = [], []
        for line in self.splitlines():
            if line[:1].isdigit() and ": " in line and line.split(":")[0].isdigit():
                steps.append([line])
            elif line.startswith("     ") and steps and not end:
                steps[-1].append(line.strip())
            else:
                end.append(line)
        rows = "".join(f"<details><summary><code>{html.escape(s[0])}</code></summary><pre style='margin-left:2em'>{html.escape(chr(10).join(s[1:]))}</pre></details>"
                       for s in steps)
        stats = "".join(f"<tr><th style='text-align:left'>{html.escape(k)}</th><td>{html.escape(str(v))}</td></tr>" for k, v in self.stats.items())
        return f"<div class='tenon-explain'>{rows}<pre>{html.escape(chr(10).join(end))}</pre><table>{stats}</table></div>"
