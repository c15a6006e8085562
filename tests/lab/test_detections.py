"""The table of errors that the comparison sees: it is complete, and its first rows are what its command computes."""

from lab import detections
from stages import d1_1
from stages.catalog import CATALOG, GATE


def test_the_table_has_every_milestone_and_every_control_is_rejected() -> None:
    table = {row[:2]: row[2:] for row in detections.tables.read(detections.TABLE)}
    assert list(dict.fromkeys(name for name, _ in table)) == [*(each.id for each in CATALOG), *detections.SIZES]
    controls = [row for (_, error), row in table.items() if error == detections.CONTROLS]
    assert len(controls) == len(CATALOG) and all(cases == seen for cases, seen, *_ in controls)
    assert {error for (_, error), row in table.items() if int(row[1])} == {detections.CONTROLS, *detections.ERRORS}


def test_the_rows_of_the_gate_are_what_the_command_computes() -> None:
    """The thinnest figure is compared by name only: its digits depend on the order of sums in float64."""

    def counts(row: tuple[str, ...]) -> tuple[str, ...]:
        return (*row[:-1], row[-1].split()[0])

    known = [row for row in detections.tables.read(detections.TABLE) if row[0] == GATE.id]
    assert list(map(counts, detections.rows(GATE.id, d1_1.CASES))) == list(map(counts, known))
