#!/usr/bin/env python3
"""Lines of JSON of tenon_shapes and rivals.py -> tables in Markdown. table.py FILE...

The first two tuples warm up: the program's first call, and its largest sizes; of the columns, stalls alone count them. A tuple's best time is that of all its calls. `unseen` is a tuple's
first call less the mean of its third and later ones (not their best: of several calls that would be less than a call takes); `seen`, beside it, is the second call less
the same: what noise and clocks do."""
import fileinput, json, math

STALL_US = 100e3


def quantile(values, q):
    values = sorted(values)
    return values[int(q * (len(values) - 1))] if values else math.nan


def calls_of(r):
    """Times of each tuple's calls, in order."""
    n = r["repeats"]
    return [r["tuple_us"][i:i + n] for i in range(0, len(r["tuple_us"]), n)]


def best_of(r):
    best = [min(c) for c in calls_of(r)]
    for k, us in zip(r["churn"], r["churn_us"]):
        best[k] = min(best[k], us)
    return best


def mean(values):
    return sum(values) / len(values)


def scatter(which, us, best):
    """p99/p50 of times over the best of their sizes."""
    ratios = [t / best[k] for k, t in zip(which, us)]
    return f"{quantile(ratios, 0.99) / quantile(ratios, 0.5):.2f}" if ratios else ""


def slope(kb):
    """By least squares over the second half, in MB for 1,000 calls; of fewer calls it says nothing."""
    if len(kb) < 1000:
        return math.nan
    kb = kb[len(kb) // 2:]
    n = len(kb)
    mean = sum(kb) / n
    return sum((i - (n - 1) / 2) * (y - mean) for i, y in enumerate(kb)) / (n * (n * n - 1) / 12) * 1000 / 1024


def over(values):
    return " / ".join(f"{quantile(values, q) / 1e3:.2f}" for q in (0.5, 0.9, 0.99, 1))


def over_static(r, column):
    """Static speed over that of the other build; how tenon's exact plans do is in a further column."""
    ratios = [s[2] / s[column] for s in r["static"] if len(s) > column]
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}, {min(ratios):.3f}" if ratios else ""


def row(r):
    calls, best = calls_of(r)[2:], best_of(r)
    excess = [us - b for c, b in zip(calls_of(r), best) for us in c] + [us - best[k] for k, us in zip(r["churn"], r["churn_us"])]
    stalls = [e for e in excess if e > STALL_US]
    kb = r["tuple_kb"]
    return [r["engine"], f"{len(calls) + 2}, {len(r['churn'])}", f"{r['first_ms']:.0f}", f"{quantile(best, 0.5) / 1e3:.2f}", over([c[0] - mean(c[2:]) for c in calls if len(c) > 2]),
            over([c[1] - mean(c[2:]) for c in calls if len(c) > 2]), f"{len(stalls)}" + (f", longest {max(stalls) / 1e3:.0f}" if stalls else ""),
            scatter(r["churn"], r["churn_us"], best), scatter(r["steady"], r["steady_us"], best), f"{(kb[-1] - kb[r['repeats']]) / 1024:+.0f}" if len(calls) else "",
            f"{slope(r['churn_kb']):+.2f}", over_static(r, 1), over_static(r, 3), str(r.get("compiles", ""))]


HEAD = ["engine", "tuples, further calls", "first call, ms", "a seen size, ms (median)", "unseen over seen, ms: median / p90 / p99 / max", "the same of a second call", "stalls of 100 ms and more",
        "p99/p50 under churn, times over their size's best", "the same in runs of one size", "RSS over the tuples, MB", "RSS for 1,000 calls more, MB", "generic over static speed: geometric mean, worst", "exact plans over static", "compiled in calls"]


def main():
    results = [json.loads(line) for line in fileinput.input() if line.strip()]
    for program in dict.fromkeys(r["program"] for r in results):
        of = [r for r in results if r["program"] == program]
        print(f"\n### {program}, {of[0]['threads']} threads\n")
        for cells in (HEAD, ["---"] * len(HEAD), *map(row, of)):
            print("| " + " | ".join(cells).replace("+nan", "").replace("nan, nan", "").replace("nan", "") + " |")


if __name__ == "__main__":
    main()
