"""The command as a whole: its verbs, its help, and that every end is a code and a sentence."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from rowcrew.cli import main as command
from rowcrew.cli.main import VERBS, main, program
from rowcrew.errors import RowcrewError, StoreBusy

Streams = pytest.CaptureFixture[str]


def run(streams: Streams, *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    return code, *streams.readouterr()


def test_the_help_of_each_verb_is_the_one_of_its_function() -> None:
    context = click.Context(program)
    loaded = {name: program.get_command(context, name) for name in program.list_commands(context)}
    firsts = {name: (verb.help or "").partition("\n")[0] for name, verb in loaded.items() if verb}
    assert firsts == {name: lazy.help for name, lazy in VERBS.items()}
    assert {name: verb.name for name, verb in loaded.items() if verb} == {name: name for name in VERBS}


def test_every_verb_takes_config_and_verbose() -> None:
    context = click.Context(program)
    without = []
    for name in VERBS:
        verb = program.get_command(context, name)
        for leaf in verb.commands.values() if isinstance(verb, click.Group) else [verb]:
            assert leaf is not None
            options = {option for parameter in leaf.params for option in parameter.opts}
            if not {"--config", "--verbose"} <= options:
                without.append(name)
    assert without == []


def test_help_loads_no_verb_and_no_engine() -> None:
    code = (
        "import sys; from rowcrew.cli.main import main; main(['--help']);"
        "print(sorted(name for name in sys.modules"
        " if name in ('asyncio', 'apsw', 'rich', 'rowcrew.engine') or name.startswith('rowcrew.')),"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ["cli", "cli.exits", "cli.main", "cli.session", "cli.terminal"]
    loaded += ["domain", "domain.json_text", "errors"]
    assert done.stderr.strip() == str([f"rowcrew.{name}" for name in loaded])
    assert [name for name in VERBS if f"  {name} " not in done.stdout] == []


def test_a_status_loads_neither_rich_nor_uvloop() -> None:
    code = (
        "import sys; from rowcrew.cli.main import main; main(['status']);"
        "print(sorted({'rich', 'uvloop', 'pydantic', 'openai', 'aiohttp'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_a_verb_the_help_is_shown(capsys: Streams) -> None:
    assert run(capsys) == run(capsys, "--help")


def test_the_version_is_shown(capsys: Streams) -> None:
    assert run(capsys, "--version") == (0, "rowcrew 0.1.0\n", "")


def test_an_unknown_verb_names_the_nearest(capsys: Streams) -> None:
    assert run(capsys, "statsu") == (
        2,
        "",
        (
            "Error: there is no command 'statsu'. Did you mean `rowcrew status`?\n"
            "Hint: `rowcrew --help` shows what can be given\n"
        ),
    )


def test_a_wrong_option_says_where_its_help_is(capsys: Streams) -> None:
    assert run(capsys, "list", "--jsn") == (
        2,
        "",
        (
            "Error: no such option '--jsn'. Did you mean '--json'?\n"
            "Hint: `rowcrew list --help` shows what can be given\n"
        ),
    )


def test_config_stands_before_and_after_the_verb(capsys: Streams) -> None:
    for arguments in (["--config", "modle=x", "list"], ["list", "--config", "modle=x"]):
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (0, "")
        assert err.startswith("Note: --config modle is no setting of rowcrew and is ignored.\n")


def test_config_without_a_value_is_refused(capsys: Streams) -> None:
    code, _, err = run(capsys, "list", "--config", "model")
    assert (code, "'model' is not KEY=VALUE" in err) == (2, True)


def breaking(error: BaseException) -> Callable[..., int]:
    def broken(*_arguments: object, **_options: object) -> int:
        raise error

    return broken


def test_an_error_is_its_sentence_and_a_hint(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.program, "main", breaking(StoreBusy("it is locked", hint="wait a moment")))
    assert run(capsys) == (75, "", "Error: it is locked\nHint: wait a moment\n")


def test_a_bug_shows_no_traceback(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.program, "main", breaking(KeyError("x")))
    assert run(capsys) == (
        1,
        "",
        (
            "Error: something in rowcrew itself broke (KeyError: 'x')\n"
            "Hint: your jobs are safe; run it again with -v for the details, and report them\n"
        ),
    )


def test_the_traceback_comes_when_it_is_asked_for(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWCREW_DEBUG", "1")
    monkeypatch.setattr(command.program, "main", breaking(RowcrewError("x")))
    code, out, err = run(capsys)
    assert (code, out, err.startswith("Traceback (most recent call last):")) == (1, "", True)


def test_an_interrupt_ends_with_130(capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.program, "main", breaking(KeyboardInterrupt()))
    assert run(capsys) == (130, "", "Interrupted. `rowcrew status` shows where the jobs stand.\n")


def test_a_damaged_settings_file_is_a_sentence(
    capsys: Streams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rowcrew.toml").write_text("model =")
    code, out, err = run(capsys, "list")
    assert (code, out) == (2, "")
    assert (
        err == f"Error: {tmp_path / 'rowcrew.toml'}, line 1: Invalid value\nHint: mend the file; it is TOML\n"
    )
