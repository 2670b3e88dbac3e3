"""What a list says of a thread. No store."""

from rowcrew.domain.thread import preview_of


def test_a_preview_is_one_line() -> None:
    assert preview_of("  two\n lines\t") == "two lines"
    assert preview_of("\n") == ""


def test_a_preview_is_short() -> None:
    assert preview_of("x" * 200) == "x" * 200
    assert preview_of("x" * 201) == "x" * 199 + "…"
    assert preview_of("x" * 198 + " yz") == "x" * 198 + "…"
