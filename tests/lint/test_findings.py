"""The order of findings."""

from translate.lint.findings import Finding, by_severity


def test_errors_come_first() -> None:
    findings = [Finding("note", "a", "", ""), Finding("error", "b", "", ""), Finding("note", "c", "", "")]
    assert [finding.name for finding in by_severity(findings)] == ["b", "a", "c"]
