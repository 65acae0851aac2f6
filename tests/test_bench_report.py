"""Evaluations as tables, JSON, Markdown, LaTeX and HTML: values, percent, escaping, no outside request."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer.main

from wherein.bench.evaluation import Evaluation, Line, QueryScore
from wherein.bench.html import write_html
from wherein.bench.plots import line_plots, matrix_plot
from wherein.bench.reference import PaperTable
from wherein.bench.report import chosen_format, latex_escape, reference_tables, render
from wherein.bench.tables import figure, headline, lookup, summary_rows, tables
from wherein.cli.bench import register
from wherein.errors import SpecError

FORB = {
    name: {level: {"mAP@1": 0.5, "mAP@5": 0.61234, "t-mAP@1": 0.2, "t-mAP@5": 0.3} for level in ("overall", "easy")}
    for name in ("all", "logos")
}


def papers(**rows: Mapping[str, float]) -> tuple[PaperTable, ...]:
    """One table of a paper."""
    return (PaperTable("Paper, Table 1", {"split": "val"}, tuple(rows.items())),)


def evaluation(scores: Mapping[str, object], **changes: object) -> Evaluation:
    """An evaluation around a scores document."""
    parts: dict[str, object] = {
        "benchmark": "forb",
        "protocol": "official",
        "scores": scores,
        "queries": (),
        "curves": (),
        "warnings": (),
        "reference": (),
    }
    return Evaluation(**(parts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        (None, "mAP", "–"),
        (float("nan"), "mAP", "–"),
        (0.61234, "mAP@5", "61.23"),
        (1.0, "R@1", "100.00"),
        (9320.0, "MNR", "9320"),
        (2.5, "MedR", "2.5"),
        (0.0123456, "seconds_per_query", "0.01235"),
    ],
    ids=["none", "not a number", "a fraction", "all", "a mean rank", "a median rank", "seconds"],
)
def test_figures_are_percent_unless_they_are_ranks_or_seconds(value: float | None, column: str, text: str) -> None:
    assert figure(value, column) == text


def test_no_scores_make_no_table() -> None:
    assert tables({}) == ()
    assert headline({}) == {}
    assert render(evaluation({}), "markdown") == "## forb · official\n"


def test_groups_with_equal_columns_share_one_table() -> None:
    (table,) = tables(FORB)
    assert [label for label, _ in table.rows] == ["all overall", "all easy", "logos overall", "logos easy"]
    assert table.columns == ("mAP@1", "mAP@5", "t-mAP@1", "t-mAP@5")


def test_searchad_has_overall_classes_and_categories() -> None:
    row = {"MAP": 0.1, "MRP": 0.2}
    scores = {
        "overall": row,
        "classes": {f"Animal-{i}": row for i in range(9)},
        "categories": {"Animal": {"MAP": 0.1}, "Sign": {"MAP": 0.3}},
    }
    overall, classes, categories = tables(scores)
    assert [label for label, _ in overall.rows] == ["overall"]
    assert classes.title == "classes"
    assert len(classes.rows) == 9
    assert categories.rows == (("Animal", {"MAP": 0.1}), ("Sign", {"MAP": 0.3}))


def test_located_figures_are_folded_into_columns() -> None:
    scores = {"medium": {"mAP@50:5:95": 0.3, "mIoU": {"D": 0.4, "S": None}}, "ious": {"0_1": [0.5, 0.5]}}
    (table,) = tables(scores)
    assert table.columns == ("mAP@50:5:95", "mIoU D", "mIoU S")


def test_lookup_by_path_and_by_name() -> None:
    assert lookup(FORB, "logos/easy/mAP@5") == 0.61234
    assert lookup(FORB, "t-mAP@5") == 0.3
    assert lookup(FORB, "nothing") is None
    assert lookup({"medium": {"mAP@50:5:95": {"D": 0.3, "S": 0.4}, "mIoU": {"D": 0.1}}}, "medium/mAP@50:5:95") == 0.3


def test_the_papers_stand_beside_both_protocols_of_pixel_retrieval() -> None:
    for figures in (0.3, {"D": 0.3, "S": 0.4}):
        scores = {"medium": {"mAP@50:5:95": figures, "mIoU": {"D": 0.1, "S": 0.2}}}
        (made,) = reference_tables(evaluation(scores, reference=papers(SSP={"medium/mAP@50:5:95": 0.373})))
        assert made.rows == (("medium mAP@50:5:95", {"this run": 0.3, "SSP": 0.373}),)


def test_the_summary_has_every_group_but_not_every_object_of_many() -> None:
    assert [label for label, _ in summary_rows({level: {"mAP": 0.1} for level in ("easy", "hard")})] == ["easy", "hard"]
    many = dict.fromkeys(("all", "logos", "paintings", "currency", "bookcovers"), FORB["all"])
    assert [label for label, _ in summary_rows(many)] == ["all overall", "all easy"]


def test_the_page_names_the_group_of_its_large_figures(tmp_path: Path) -> None:
    write_html(evaluation({level: {"mAP": 0.5} for level in ("easy", "hard")}), tmp_path / "page.html")
    assert "<b>50.00</b><span>easy mAP</span>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_json_is_the_scores_document_in_fractions() -> None:
    document = json.loads(render(evaluation({"mAP": 0.5, "MedR": float("nan")}), "json"))
    assert document == {"mAP": 0.5, "MedR": None}


def test_terminal_table_shows_percent_and_costs() -> None:
    scores = FORB | {"timing": {"seconds_per_query": 0.01, "setup_seconds": 2.0}, "bytes_per_image": 1024.0}
    text = render(evaluation(scores, reference=papers(FIRe={"mAP@5": 0.8808})), "table")
    assert "61.23" in text
    assert "88.08" in text
    assert "bytes per image 1,024" in text


def test_markdown_puts_the_papers_in_columns_beside_this_run() -> None:
    text = render(evaluation(FORB, reference=papers(FIRe={"mAP@5": 0.8808, "t-mAP@5": 0.775})), "markdown")
    assert "| | this run | FIRe |" in text
    assert "| mAP@5 | 61.23 | 88.08 |" in text


def test_reference_methods_without_a_figure_leave_a_gap() -> None:
    (made,) = reference_tables(evaluation(FORB, reference=papers(A={"mAP@5": 0.1}, B={"t-mAP@5": 0.2, "none": 1.0})))
    assert [label for label, _ in made.rows] == ["mAP@5", "t-mAP@5"]
    assert made.rows[0] == ("mAP@5", {"this run": 0.61234, "A": 0.1})


def test_latex_compiles_as_text_and_rows_have_every_cell() -> None:
    text = render(evaluation({"a_b": {"mAP": 0.5}, "c&d": {"mAP": 0.25}}), "latex")
    assert r"a\_b & 50.00 \\" in text
    assert r"c\&d & 25.00 \\" in text
    assert text.count(r"\begin{tabular}{lr}") == text.count(r"\end{tabular}") == 1
    assert latex_escape("50%_{x}\\") == r"50\%\_\{x\}\textbackslash{}"


def test_html_is_self_contained_and_escapes_what_it_shows(tmp_path: Path) -> None:
    queries = (QueryScore("</script><b>", "easy", {"AP": 0.5}, {"text": "<i>cow</i>"}),)
    curves = (Line("easy & hard", "recall", "precision", [0.0, 1.0], [1.0, 0.2]),)
    path = tmp_path / "report.html"
    write_html(evaluation(FORB, queries=queries, curves=curves, warnings=("1 < 2",)), path, method="mini")
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", text)
    assert "@import" not in text
    assert "</script><b>" not in text
    assert "1 &lt; 2" in text
    assert "easy &amp; hard" in text
    assert text.count("<script") == 2
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])  # type: ignore[index]
    assert data["queries"] == [
        {"id": "</script><b>", "group": "easy", "values": [0.5], "detail": {"text": "<i>cow</i>"}}
    ]


def test_two_formats_at_once_are_refused() -> None:
    assert [chosen_format(None, json=False), chosen_format("latex", json=False)] == ["table", "latex"]
    assert [chosen_format(None, json=True), chosen_format("json", json=True)] == ["json", "json"]
    with pytest.raises(SpecError, match="--json and --format latex ask for two formats"):
        chosen_format("latex", json=True)
    with pytest.raises(SpecError, match="none of table, json"):
        chosen_format("word", json=False)


def test_every_option_of_bench_is_in_its_page() -> None:
    page = (Path(__file__).parents[1] / "docs" / "bench.md").read_text(encoding="utf-8")
    group = typer.Typer()
    register(group)
    bench = typer.main.get_command(group)
    options = {
        flag
        for command in getattr(bench, "commands", {}).get("bench", bench).commands.values()
        for option in command.get_params(typer.Context(command))
        for flag in option.opts
        if flag.startswith("--")
    }
    assert len(options) > 20
    assert sorted(flag for flag in options - {"--help"} if flag not in page) == []


def test_plots_of_nothing_are_nothing() -> None:
    assert line_plots(()) == ""
    assert line_plots((Line("empty", "x", "y", [], []),)) == ""


def test_curves_with_the_same_axes_share_a_plot() -> None:
    same = [Line(f"{i}", "recall", "precision", [0.0, 1.0], [1.0, 0.0]) for i in range(3)]
    drawn = line_plots([*same, Line("t", "threshold", "mAP", [-1.0, 2.0], [0.1, 0.1])])
    assert drawn.count("<svg") == 2
    assert drawn.count("<polyline") == 4


def test_depths_that_span_decades_are_spaced_by_their_logarithm() -> None:
    drawn = line_plots([Line("found", "places", "recall", [1.0, 10.0, 100.0], [0.1, 0.2, 0.3])])
    first, middle, last = (float(point.split(",")[0]) for point in re.search('points="([^"]+)', drawn)[1].split())  # type: ignore[index]
    assert middle == pytest.approx((first + last) / 2)
    assert [text for text in re.findall('text-anchor="middle">([^<]+)<', drawn) if text.isdigit()] == ["1", "10", "100"]


def test_matrix_names_each_pair_and_leaves_zeros_blank() -> None:
    drawn = matrix_plot(["cow", "sign"], [[0.5, 0.0], [0.25, 1.0]], caption="top 50")
    assert drawn.count("<rect") == 3
    assert "sign → cow: 25.0 %" in drawn
