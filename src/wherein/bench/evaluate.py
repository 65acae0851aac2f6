"""Official scoring, one door: prediction files of a benchmark in, an Evaluation out."""

from pathlib import Path
from typing import Final, Literal

from wherein.bench.evaluation import Evaluation
from wherein.errors import DataError

BENCHMARKS: Final = ("searchad", "forb", "subregion", "roxford5k", "rparis6k", "proxford", "prparis")
PROTOCOLS: Final = ("official", "paper")

Protocol = Literal["official", "paper"]


def evaluate(
    benchmark: str,
    *,
    data: str | Path,
    predictions: str | Path,
    ranks: str | Path | None = None,
    split: str | None = None,
    protocol: str = "official",
) -> Evaluation:
    """Score predictions exactly as the benchmark's evaluator does, or by the paper's formula.

    `data` is the unpacked benchmark; `predictions` a file or, for FORB, a folder; `ranks` the ranking of the
    pixel benchmarks' database task; `split` is SearchAD's, `val` unless given.
    """
    root, path = Path(data), Path(predictions)
    if benchmark not in BENCHMARKS:
        raise DataError(f"unknown benchmark {benchmark!r}; choose one of {', '.join(BENCHMARKS)}")
    if protocol not in PROTOCOLS:
        raise DataError(f"unknown protocol {protocol!r}; choose one of {', '.join(PROTOCOLS)}")
    if not root.is_dir():
        raise DataError(f"--data {root} is not a folder; give the folder the benchmark was unpacked into")
    if not path.exists():
        raise DataError(f"--predictions {path} does not exist")
    if ranks is not None and benchmark not in ("proxford", "prparis"):
        raise DataError(f"--ranks belongs to proxford and prparis; {benchmark} takes its ranking as --predictions")
    if split is not None and benchmark != "searchad":
        raise DataError(f"--split belongs to searchad; {benchmark} has one set of queries")
    split = split or "val"
    return _scored(benchmark, root, path, Path(ranks) if ranks is not None else None, split=split, protocol=protocol)


def _scored(benchmark: str, root: Path, path: Path, ranks: Path | None, *, split: str, protocol: str) -> Evaluation:
    if benchmark == "searchad":
        from wherein.bench.searchad import scoring as searchad

        return searchad.score(root, path, split=split, protocol=protocol)
    if benchmark == "forb":
        from wherein.bench.forb import scoring as forb

        return forb.score(root, path, protocol=protocol)
    if benchmark == "subregion":
        from wherein.bench.subregion import scoring as subregion

        return subregion.score(root, path, protocol=protocol)
    if benchmark in ("proxford", "prparis"):
        from wherein.bench.pixel import scoring as pixel

        return pixel.score(root, path, name=benchmark, ranks=ranks, protocol=protocol)
    from wherein.bench.revisited import scoring as revisited

    return revisited.score(root, path, name=benchmark, protocol=protocol)
