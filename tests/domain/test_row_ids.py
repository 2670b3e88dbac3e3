"""Item ids: own ids stay, repeats and blanks get names that are nobody's own."""

from rowcrew.domain.row_ids import IdColumn, ItemNames


def names_of(*cells: str) -> list[str]:
    column = IdColumn(0)
    for cell in cells:
        column.add(cell)
    column.settle()
    names = ItemNames(column, len(cells))
    return [names.name(number, cell.strip()) for number, cell in enumerate(cells, 1)]


def test_an_id_of_its_own_stays_as_it_is() -> None:
    assert names_of("b", "a", " c ", "A", "001", "1") == ["b", "a", "c", "A", "001", "1"]


def test_repeats_are_numbered_from_2() -> None:
    assert names_of("a", "b", "a", "a ", "b") == ["a", "b", "a-2", "a-3", "b-2"]


def test_a_repeat_never_gets_an_id_that_is_in_the_file_before_or_after_it() -> None:
    assert names_of("a", "a", "a-2", "a", "a-3", "a-2") == ["a", "a-4", "a-2", "a-5", "a-3", "a-2-2"]


def test_a_row_without_an_id_is_named_by_its_number() -> None:
    assert names_of("", "x", "  ", "\t") == ["row-1", "x", "row-3", "row-4"]


def test_a_row_number_that_is_an_id_of_the_file_is_not_used() -> None:
    assert names_of("row-2", "", "row-2-2", "row-2", "") == [
        "row-2",
        "row-2-3",
        "row-2-2",
        "row-2-4",
        "row-5",
    ]
    assert names_of("x", "", "row-2", "row-2") == ["x", "row-2-2", "row-2", "row-2-3"]


def test_repeats_of_the_id_row_keep_clear_of_the_row_numbers() -> None:
    assert names_of("row", "row", "", "row") == ["row", "row-5", "row-3", "row-6"]
    assert names_of("row", "row", "row") == ["row", "row-2", "row-3"]


def test_the_repeats_and_blanks_are_counted() -> None:
    column = IdColumn(0)
    for cell in ("a", "b", "a", " a", "", "c", " ", "b"):
        column.add(cell)
    column.settle()
    assert (column.repeats, column.blanks) == (3, 2)
