"""The count of rules: lists are read whole, each rule falls into one group, wrong ids are refused."""

import json
from pathlib import Path

import pytest

from tools import rules
from tools.rules import Count, Outcome, RuleError, Seed

TABLE = """# Rules of seed 007

| id | rule | seed lines | shown by |
|---|---|---|---|
| S007-001 | First, `a` and "b". | 1 | golden case |
| S007-002 | Second. | 2, 3-4 | property |
| S007-003 | Third. | 5 | real CLI |
| S007-004 | Fourth. | 6 | real CLI |
"""


@pytest.fixture
def seed(tmp_path: Path) -> Seed:
    path = tmp_path / "007-sample.md"
    path.write_text(TABLE)
    return rules.read_seed(path)


def test_a_list_is_read_with_number_name_and_texts(seed: Seed) -> None:
    assert (seed.number, seed.name) == ("007", "sample")
    assert list(seed.rules) == ["S007-001", "S007-002", "S007-003", "S007-004"]
    assert seed.rules["S007-001"] == 'First, `a` and "b".'


def test_each_rule_falls_into_one_group(seed: Seed) -> None:
    outcomes = {
        "a": Outcome(("S007-001", "S007-002"), passed=True),
        "b": Outcome(("S007-002",), passed=False),
    }
    found = rules.count(seed, outcomes, {"S007-003": "nobody may want this one"})
    assert found == Count(
        seed,
        shown=("S007-001",),
        failing=("S007-002",),
        left_out=("S007-003",),
        open=("S007-004",),
    )


def test_a_rule_that_is_left_out_but_tested_counts_as_tested(seed: Seed) -> None:
    found = rules.count(seed, {"a": Outcome(("S007-003",), passed=True)}, {"S007-003": "it was not to be"})
    assert found.shown == ("S007-003",)
    assert found.left_out == ()


@pytest.mark.parametrize(
    "line",
    [
        "| S007-001 | the same id twice | 1 | x |",
        "| S008-009 | of another seed | 1 | x |",
        "| S007-9 | a short id | 1 | x |",
    ],
)
def test_a_row_that_is_not_a_rule_of_this_seed_is_rejected(tmp_path: Path, line: str) -> None:
    path = tmp_path / "007-sample.md"
    path.write_text(TABLE + line + "\n")
    with pytest.raises(RuleError, match=r"007-sample\.md"):
        rules.read_seed(path)


def test_an_unknown_rule_is_refused_wherever_it_is_named() -> None:
    with pytest.raises(RuleError) as refused:
        rules.check_ids(["S007-001"], {"tests/x.py::test": Outcome(("S007-999",), True)}, {"S007-998": "why"})
    assert "tests/x.py::test names S007-999" in str(refused.value)
    assert "left-out.toml names S007-998" in str(refused.value)


def test_leaving_a_rule_out_needs_a_written_reason(tmp_path: Path) -> None:
    path = tmp_path / "left-out.toml"
    path.write_text('"S007-001" = "no"\n')
    with pytest.raises(RuleError, match="S007-001 needs a reason"):
        rules.read_left_out(path)


def test_ids_are_printed_as_ranges() -> None:
    assert rules.compact(["S007-001", "S007-002", "S007-003", "S007-007"]) == "001-003 007"
    assert rules.compact([]) == ""


def test_the_report_shows_each_number_and_verbose_shows_each_text(seed: Seed) -> None:
    left_out = {"S007-003": "nobody may want this one"}
    counts = [rules.count(seed, {"a": Outcome(("S007-001",), passed=True)}, left_out)]
    brief = rules.report(counts, left_out)
    assert "seed 007 sample: 4 rules, 1 shown, 0 failing, 1 left out, 2 not yet shown" in brief
    assert "left out S007-003: nobody may want this one" in brief
    assert "not yet shown: 002 004" in brief
    assert "not yet shown S007-004: Fourth." in rules.report(counts, left_out, verbose=True)


def test_without_results_the_count_names_the_command_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rules, "RESULTS", tmp_path / "rules.json")
    assert rules.main([]) == 1
    assert "run `make test`" in capsys.readouterr().out


def test_the_count_reads_the_results_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"t": {"rules": ["S004-001"], "passed": True}}))
    assert rules.read_outcomes(path) == {"t": Outcome(("S004-001",), passed=True)}


def test_the_five_lists_are_whole_and_every_left_out_rule_is_in_one() -> None:
    seeds = rules.read_seeds()
    assert {seed.number: len(seed.rules) for seed in seeds} == {
        "000": 238,
        "001": 143,
        "002": 135,
        "003": 141,
        "004": 346,
    }
    for seed in seeds:
        expected = [f"S{seed.number}-{number:03}" for number in range(1, len(seed.rules) + 1)]
        assert list(seed.rules) == expected
    rules.check_ids(rules.known_rules(), {}, rules.read_left_out())


def test_results_of_the_long_form_are_read_in_addition_to_the_last_run(tmp_path: Path) -> None:
    path = tmp_path / "long-result.json"
    assert rules.read_long(path) == {}
    path.write_text('{"result": "passed", "rules": {"t": {"rules": ["S009-001"], "passed": true}}}')
    assert rules.read_long(path) == {"t": Outcome(("S009-001",), True)}
