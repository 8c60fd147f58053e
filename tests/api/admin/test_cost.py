"""The page of costs: the sums of the API, as a page and as CSV, whatever clients called their dimensions."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import date
from decimal import Decimal
from html import unescape
from typing import Any

import httpx
import pytest

from api.admin.cost_charts import LARGEST
from api.admin.cost_form import presets
from jobstore.reports.model import ReportQuery
from tests.api.site import Driver, Site
from tests.contract.making import new_job

FORMULA = "=HYPERLINK(1)"
SCRIPT = "<script>alert(1)</script>"
BY_EXPERIMENT = "/admin/cost?by=dim&dimension=experiment"


@pytest.fixture
def rendered(http: httpx.Client, worker: Driver) -> None:
    """Two jobs of an experiment that looks like a formula, one of another that looks like a script."""
    for number, value in enumerate((FORMULA, FORMULA, SCRIPT)):
        body = {"prompt": f"a red circle {number}", "dimensions": {"experiment": value}}
        assert http.post("/v1/jobs", json=body).status_code == 202
        worker.render()


def table(text: str, caption: str) -> list[list[str]]:
    """The body of a page's table, cell by cell."""
    _, _, after = text.partition(f'<caption class="sr">{caption}</caption>')
    inner = after.partition("</table>")[0].partition("<tbody>")[2]
    rows = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in inner.split("</tr>"))
    return [[unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in row] for row in rows if row]


def charts(text: str) -> list[dict[str, Any]]:
    """What the page's charts show."""
    return [json.loads(unescape(found)) for found in re.findall(r'data-chart="([^"]*)"', text)]


def amount(cell: str) -> Decimal:
    """Of a cell like ``1,000.50 USD``."""
    return Decimal(cell.split(maxsplit=1)[0].replace(",", ""))


def test_one_span_of_days_is_marked() -> None:
    """On the last day of a month of 30 days, two spans are the same days."""
    query = ReportQuery(first=date(2026, 11, 1), last=date(2026, 11, 30))
    marked = [name for name, _, _, chosen in presets(query, query.last) if chosen]
    assert marked == ["This month"]


@pytest.mark.usefixtures("rendered")
def test_the_sums_are_those_of_the_api(http: httpx.Client) -> None:
    """Row by row, in all, and in the chart."""
    text = http.get(BY_EXPERIMENT).text
    *rows, last = table(text, "Costs in USD")
    told = http.get("/v1/costs?by=dim:experiment").json()
    assert [(row[0], amount(row[5])) for row in rows] == [
        (row["group"]["dim:experiment"], Decimal(row["charged"])) for row in told["data"]
    ]
    assert amount(last[5]) == Decimal(told["totals"][0]["charged"]) == Decimal("0.03")
    bars, times = charts(text)
    assert {one["label"]: round(sum(one["data"]), 9) for one in bars["series"]} == {FORMULA: 0.02, SCRIPT: 0.01}
    assert [one["label"] for one in times["series"]] == ["p50", "p90"]
    assert table(text, "Completion times")[-1][1] == "3"


@pytest.mark.usefixtures("rendered")
def test_filters_hold_for_everything(http: httpx.Client) -> None:
    """The table, the chart, the times and the sheets; what is left empty is not asked."""
    where = {"dimension": "experiment", "value": SCRIPT, "team": "", "key": "", "by": ["model", ""]}
    text = http.get("/admin/cost", params=where).text
    assert table(text, "Costs in USD")[-1][1] == "1"
    assert table(text, "Completion times")[-1][1] == "1"
    assert round(sum(charts(text)[0]["series"][0]["data"]), 9) == 0.01
    sheet = list(csv.DictReader(io.StringIO(http.get("/admin/cost/costs.csv", params=where).text)))
    assert [(row["model"], row["charged"]) for row in sheet] == [("scenes", "0.01")]
    assert "Nothing was settled" in http.get("/admin/cost", params={"team": "nobody"}).text


@pytest.mark.usefixtures("rendered")
def test_nothing_of_a_client_is_taken_for_more_than_text(http: httpx.Client) -> None:
    """Not as markup by a browser, not as a formula by a spreadsheet."""
    assert SCRIPT not in http.get(BY_EXPERIMENT).text
    answer = http.get(BY_EXPERIMENT.replace("/cost?", "/cost/costs.csv?"))
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["cache-control"] == "no-store"
    assert "attachment" in answer.headers["content-disposition"]
    values = [row["dim:experiment"] for row in csv.DictReader(io.StringIO(answer.text))]
    assert values == [f"'{FORMULA}", SCRIPT]
    times = http.get(BY_EXPERIMENT.replace("/cost?", "/cost/times.csv?")).text
    assert times.splitlines()[0] == "dim:experiment,jobs,p50_s,p90_s"


def test_currencies_are_told_apart(site: Site, http: httpx.Client, worker: Driver) -> None:
    """A part, a total and a chart for each: nothing is added up over them."""
    for currency in ("EUR", "USD", "USD"):
        site.call(site.services.store.submit(new_job(currency=currency, price=Decimal("1.5"))))
        worker.render()
    text = http.get("/admin/cost").text
    assert [amount(table(text, f"Costs in {currency}")[-1][5]) for currency in ("EUR", "USD")] == [
        Decimal("1.5"),
        Decimal(3),
    ]
    assert [one["unit"] for one in charts(text)] == ["EUR", "USD", "s"]


def test_beyond_the_largest_the_rest_is_one_bar(site: Site, http: httpx.Client, worker: Driver) -> None:
    """Which makes the bars of a day come to what was charged; a group that is called so is another."""
    for number in range(LARGEST + 2):
        team = "rest" if number == LARGEST + 1 else f"team {number}"
        site.call(site.services.store.submit(new_job(team=team, price=Decimal(number + 1))))
        worker.render()
    bars = charts(http.get("/admin/cost?by=team").text)[0]
    named = {one["label"]: sum(one["data"]) for one in bars["series"]}
    assert len(named) == LARGEST + 1
    assert sum(named.values()) == 55
    assert (named["rest"], named["rest (2)"]) == (10, 1 + 2)


def test_days_are_those_of_the_browser(http: httpx.Client) -> None:
    """Its script leaves the zone in a cookie; one that nobody knows is none, and the address comes first."""
    assert "data-wants-zone" in http.get("/admin/cost").text
    for cookie, shown in (("Europe%2FBerlin", "Europe/Berlin"), ("Nowhere", "UTC")):
        text = http.get("/admin/cost", headers={"cookie": f"safelight_zone={cookie}"}).text
        assert f'name="zone" value="{shown}"' in text
        assert ("data-wants-zone" in text) is (shown == "UTC")
    named = http.get("/admin/cost?zone=Asia/Tokyo", headers={"cookie": "safelight_zone=Europe/Berlin"}).text
    assert 'name="zone" value="Asia/Tokyo"' in named


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("by=nothing", "by"), ("by=day&by=model&by=team", "at most 2"), ("by=dim", "dimension is missing"),
        ("value=x", "dimension is missing"), ("show=all", "show"), ("zone=Mars", "zone"), ("from=soon", "from"),
        ("from=2026-11-02&to=2026-11-01", "to must not be before 2026-11-02"), ("from=2000-01-01", "1100 days"),
        ("key=x", "key"), ("cache=no", "cache"), (f"team={'x' * 257}", "team"), ("dimension=A!&by=dim", "by is one of"),
        ("other=1", "other"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said(http: httpx.Client, query: str, word: str) -> None:
    """By the page and by the sheets alike."""
    for path in ("/admin/cost", "/admin/cost/costs.csv", "/admin/cost/times.csv"):
        answer = http.get(f"{path}?{query}")
        assert answer.status_code == 400
        assert word.lower() in unescape(answer.text).lower()


def test_who_may_look_sees_everybodys(
    site: Site, observer: httpx.Client, secrets: dict[str, str], worker: Driver
) -> None:
    """Keys go by their names; nobody gets in without a session."""
    headers = {"authorization": f"Bearer {secrets['plain']}"}
    assert httpx.post(f"{site.url}/v1/jobs", headers=headers, json={"prompt": "x"}).status_code == 202
    worker.render()
    assert table(observer.get("/admin/cost?by=key").text, "Costs in USD")[0][0] == "ann"
    assert "ann" in observer.get("/admin/cost/costs.csv?by=key").text
    assert httpx.get(f"{site.url}/admin/cost/costs.csv").status_code == 303
