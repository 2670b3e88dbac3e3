"""Lines out of chunks."""

from rowcrew.appserver.framing import LineSplitter, TooLong


def test_lines_come_whole_however_they_are_cut() -> None:
    splitter = LineSplitter()
    told = [line for byte in b"ab\ncd\r\n\n  \nef" for line in splitter.feed(bytes([byte]))]
    assert told == [b"ab", b"cd"]
    assert splitter.finish() == [b"ef"]
    assert splitter.finish() == []


def test_a_line_of_the_allowed_length_is_taken_and_a_longer_one_read_over() -> None:
    splitter = LineSplitter(limit=4)
    assert splitter.feed(b"1234\n12345\nab\n") == [b"1234", TooLong(), b"ab"]


def test_nothing_is_kept_of_a_line_that_is_too_long() -> None:
    splitter = LineSplitter(limit=4)
    for _ in range(1000):
        assert splitter.feed(b"x" * 100) == []
    assert splitter._parts == []
    assert splitter.feed(b"\nok\n") == [TooLong(), b"ok"]
