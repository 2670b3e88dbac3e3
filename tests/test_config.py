"""Where settings come from, which of them wins, and what is refused with which words."""

import re
from pathlib import Path

import pytest

from rowcrew.config import NOT_SETTINGS, AgentSettings, Settings
from rowcrew.errors import InvalidRequest

SOURCE = Path(__file__).resolve().parent.parent / "src"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project" / "deep").mkdir(parents=True)
    return tmp_path / "project" / "deep"


def load(home: Path, folder: Path, overrides: dict[str, str] | None = None, **variables: str) -> Settings:
    named = {f"ROWCREW_{name}": value for name, value in variables.items()}
    return Settings.load(overrides or {}, environment={"ROWCREW_HOME": str(home), **named}, folder=folder)


def refusal(
    home: Path, folder: Path, overrides: dict[str, str] | None = None, **variables: str
) -> tuple[str, str]:
    with pytest.raises(InvalidRequest) as refused:
        load(home, folder, overrides, **variables)
    return refused.value.message, refused.value.hint or ""


def test_without_any_file_the_defaults_hold(home: Path, folder: Path) -> None:
    assert load(home, folder) == Settings(
        home=home,
        model=None,
        base_url=None,
        model_providers={},
        agents=AgentSettings(max_threads=None, max_depth=1, job_max_runtime_seconds=None),
        sandbox_mode="read-only",
        features={},
        notices=(),
        sources={},
    )


def test_every_key_of_a_file_is_read(home: Path, folder: Path) -> None:
    (home / "config.toml").write_text(
        """
        model = "openai:gpt-5"
        base_url = "http://localhost:8080/v1"
        sandbox_mode = "workspace-write"
        [agents]
        max_threads = 6
        max_depth = 2
        job_max_runtime_seconds = 90
        [features]
        collab = true
        [model_providers.mine]
        name = "Mine"
        base_url = "https://models.example/v1"
        env_key = "MINE_API_KEY"
        wire_api = "chat"
        """
    )
    settings = load(home, folder)
    assert settings == Settings(
        home=home,
        model="openai:gpt-5",
        base_url="http://localhost:8080/v1",
        model_providers={
            "mine": {
                "name": "Mine",
                "base_url": "https://models.example/v1",
                "env_key": "MINE_API_KEY",
                "wire_api": "chat",
            }
        },
        agents=AgentSettings(6, 2, 90.0),
        sandbox_mode="workspace-write",
        features={"collab": True},
        sources=dict.fromkeys(settings.sources, str(home / "config.toml")),
    )
    assert len(settings.sources) == 11


def test_each_place_wins_over_the_one_before(home: Path, folder: Path) -> None:
    (home / "config.toml").write_text(
        'model = "a"\nbase_url = "http://a"\n[agents]\nmax_threads = 1\nmax_depth = 1\n'
    )
    (folder.parent / "rowcrew.toml").write_text('model = "b"\n[agents]\nmax_threads = 2\nmax_depth = 2\n')
    settings = load(home, folder, {"agents.max_depth": "4"}, AGENTS_MAX_THREADS="3", AGENTS_MAX_DEPTH="3")
    assert (settings.model, settings.base_url) == ("b", "http://a")
    assert settings.agents == AgentSettings(3, 4)
    assert settings.shown() == [
        ("agents.max_depth", "4", "--config"),
        ("agents.max_threads", "3", "the environment (ROWCREW_AGENTS_MAX_THREADS)"),
        ("base_url", "http://a", str(home / "config.toml")),
        ("model", "b", str(folder.parent / "rowcrew.toml")),
    ]


def test_the_nearest_project_file_is_the_one(home: Path, folder: Path) -> None:
    (folder.parent / "rowcrew.toml").write_text('model = "far"\nbase_url = "http://far"\n')
    (folder / "rowcrew.toml").write_text('model = "near"\n')
    settings = load(home, folder)
    assert (settings.model, settings.base_url) == ("near", None)


def test_a_variable_may_hold_text_or_toml_and_empty_is_unset(home: Path, folder: Path) -> None:
    settings = load(
        home,
        folder,
        MODEL="5",
        BASE_URL="",
        FEATURES_COLLAB="false",
        MODEL_PROVIDERS='{"my own" = {base_url = "http://x"}}',
    )
    assert (settings.model, settings.base_url, settings.features) == ("5", None, {"collab": False})
    assert settings.model_providers == {"my own": {"base_url": "http://x"}}
    assert load(home, folder, MODEL='"quoted"').model == "quoted"


def test_config_takes_toml_bare_text_and_whole_tables(home: Path, folder: Path) -> None:
    settings = load(
        home,
        folder,
        {
            "model": "openai:gpt-5",
            "base_url": '"http://x/v1"',
            "agents": "{max_threads = 3}",
            "features.collab": "true",
            "model_providers.mine.env_key": "MINE_KEY",
        },
    )
    assert (settings.model, settings.base_url, settings.agents.max_threads) == (
        "openai:gpt-5",
        "http://x/v1",
        3,
    )
    assert (settings.features, settings.model_providers) == (
        {"collab": True},
        {"mine": {"env_key": "MINE_KEY"}},
    )


def test_an_unknown_key_of_config_is_a_notice_without_its_value(home: Path, folder: Path) -> None:
    assert load(home, folder, {"model_reasoning_effort": "s3cret"}).notices == (
        "--config model_reasoning_effort is no setting of rowcrew and is ignored",
    )


def test_an_unknown_key_of_a_file_is_refused_with_the_nearest(home: Path, folder: Path) -> None:
    file = folder / "rowcrew.toml"
    file.write_text('modle = "x"')
    assert refusal(home, folder) == (f"unknown setting modle in {file}", "did you mean model?")
    file.write_text("[agents]\nmax_thread = 2")
    assert refusal(home, folder) == (
        f"unknown setting agents.max_thread in {file}",
        "did you mean agents.max_threads?",
    )
    file.write_text("[model_providers.x]\nbaseurl = 'http://x'")
    assert refusal(home, folder) == (
        f"unknown setting model_providers.x.baseurl in {file}",
        "did you mean model_providers.NAME.base_url?",
    )


def test_an_unknown_variable_is_refused_with_the_nearest(home: Path, folder: Path) -> None:
    assert refusal(home, folder, MODLE="x") == (
        "unknown setting ROWCREW_MODLE in the environment",
        "did you mean ROWCREW_MODEL?",
    )


def test_a_secret_in_a_file_is_refused_with_where_it_belongs(home: Path, folder: Path) -> None:
    (home / "config.toml").write_text('api_key = "sk-secret"')
    assert refusal(home, folder) == (
        f"unknown setting api_key in {home / 'config.toml'}",
        "secrets are read from the environment only, such as OPENAI_API_KEY",
    )


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("model = 5", "model in FILE must be text that is not blank, not 5"),
        ("model = ' '", "model in FILE must be text that is not blank"),
        ("base_url = 'x'", "base_url in FILE must be an address that begins with http:// or https://"),
        ("agents = 5", "agents in FILE must be a table of settings, not 5"),
        (
            "agents.max_threads = 'many'",
            "agents.max_threads in FILE must be a whole number of at least 1, not text",
        ),
        (
            "agents.max_threads = true",
            "agents.max_threads in FILE must be a whole number of at least 1, not true",
        ),
        ("agents.max_threads = 0", "agents.max_threads in FILE must be a whole number of at least 1, not 0"),
        (
            "agents.max_depth = []",
            "agents.max_depth in FILE must be a whole number of at least 0, not a list",
        ),
        (
            "agents.job_max_runtime_seconds = nan",
            "agents.job_max_runtime_seconds in FILE must be a number of seconds above 0, not nan",
        ),
        ("features.x = 1", "features.x in FILE must be true or false, not 1"),
        ("model = {}", "model in FILE must be text that is not blank, not a table"),
        ("model = 2020-01-01", "model in FILE must be text that is not blank, not a date or time"),
        (
            "sandbox_mode = 'off'",
            'sandbox_mode in FILE must be "read-only", "workspace-write" or "danger-full-access"',
        ),
        (
            "model_providers.x.env_key = 'sk-not-a-name'",
            "model_providers.x.env_key in FILE must be the name of the variable that holds the key",
        ),
    ],
)
def test_a_value_of_another_kind_is_refused_with_file_and_key(
    home: Path, folder: Path, toml: str, said: str
) -> None:
    file = folder / "rowcrew.toml"
    file.write_text(toml)
    assert refusal(home, folder)[0] == said.replace("FILE", str(file))


def test_a_wrong_value_in_config_or_a_variable_is_refused(home: Path, folder: Path) -> None:
    assert refusal(home, folder, {"agents.max_threads": "many"})[0] == (
        "agents.max_threads in --config must be a whole number of at least 1, not text"
    )
    assert refusal(home, folder, AGENTS_MAX_DEPTH="-1")[0] == (
        "agents.max_depth in the environment (ROWCREW_AGENTS_MAX_DEPTH)"
        " must be a whole number of at least 0, not -1"
    )


def test_a_broken_file_is_named_with_its_line(home: Path, folder: Path) -> None:
    file = home / "config.toml"
    file.write_text('model = "x"\nbase_url = \n')
    assert refusal(home, folder) == (f"{file}, line 2: Invalid value", "mend the file; it is TOML")
    file.write_text('model = "x"\n[agents')
    assert refusal(home, folder)[0].startswith(f"{file}, line 2: ")
    file.write_bytes(b'model = "\xff"')
    assert refusal(home, folder)[0] == f"{file} is not UTF-8 text (byte 9)"


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 50_000])
def test_what_python_cannot_read_as_toml_is_refused_in_every_place(
    home: Path, folder: Path, value: str
) -> None:
    wanted = "must be a whole number of at least 1, not text"
    assert refusal(home, folder, {"agents.max_threads": value})[0].endswith(wanted)
    assert refusal(home, folder, AGENTS_MAX_THREADS=value)[0].endswith(wanted)
    file = home / "config.toml"
    file.write_text(f"agents.max_threads = {value}")
    assert refusal(home, folder)[0] in (
        f"{file} has a number too long or lists too deep to be settings",
        # An interpreter that counts the brackets itself.
        f"{file}, line 1: Invalid value",
    )


def test_a_current_folder_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(InvalidRequest, match="the current folder is gone"):
        Settings.load(environment={"ROWCREW_HOME": "relative"})


def test_a_file_with_a_byte_order_mark_is_read(home: Path, folder: Path) -> None:
    (home / "config.toml").write_bytes(b'\xef\xbb\xbfmodel = "x"\r\n')
    assert load(home, folder).model == "x"


def test_a_folder_in_place_of_a_file_is_refused(home: Path, folder: Path) -> None:
    (folder / "rowcrew.toml" / "x").mkdir(parents=True)
    assert (
        refusal(home, folder)[0]
        == f"the settings file {folder / 'rowcrew.toml'} cannot be read: Is a directory"
    )


def test_what_is_shown_holds_no_secret(home: Path, folder: Path) -> None:
    settings = load(home, folder, {"base_url": "https://me:s3cret@models.example/v1?api_key=s3cret&v=1"})
    assert settings.shown() == [("base_url", "https://***@models.example/v1?api_key=***&v=1", "--config")]


def test_a_home_may_begin_with_a_tilde_or_be_relative(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert Settings.load(environment={"ROWCREW_HOME": "here"}, folder=folder).home == folder / "here"
    assert Settings.load(environment={"ROWCREW_HOME": "~/x"}, folder=folder).home == Path.home() / "x"
    assert Settings.load(environment={}, folder=folder).home == Path.home() / ".rowcrew"


def test_variables_that_are_no_settings_pass(home: Path, folder: Path) -> None:
    environment = {name: str(home) for name in NOT_SETTINGS} | {"OTHER": "x"}
    settings = Settings.load(environment=environment, folder=folder)
    assert settings == Settings(home=home, allow_network_home=True)
    assert not Settings.load(
        environment={"ROWCREW_ALLOW_NETWORK_HOME": "0"}, folder=folder
    ).allow_network_home


def test_every_variable_that_the_code_names_is_known(folder: Path) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    named = set(re.findall(r"\bROWCREW_[A-Z][A-Z_]*[A-Z]\b", text))
    values = {"ROWCREW_BASE_URL": "http://x"}
    for name in named - NOT_SETTINGS:
        Settings.load(environment={name: values.get(name, "x")}, folder=folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[prices."a:b"]\ninput = 1', "the price of a:b has no output"),
        ('[prices."a:b"]\noutput = 1', "the price of a:b has no input"),
        (
            "prices.m = {input = -1, output = 1}",
            "prices.m.input in {file} must be US dollars for a million tokens, from 0 to 1000000, not -1",
        ),
        (
            "prices.m = {input = nan, output = 1}",
            "prices.m.input in {file} must be US dollars for a million tokens, from 0 to 1000000, not nan",
        ),
        (
            "prices.m = {input = 1e400, output = 1}",
            "prices.m.input in {file} must be US dollars for a million tokens, from 0 to 1000000, not inf",
        ),
        (
            f"agents.job_max_runtime_seconds = {10**400}",
            f"agents.job_max_runtime_seconds in {{file}} must be a number of seconds above 0, not {10**400}",
        ),
        (
            'prices.m = {input = "1", output = 1}',
            "prices.m.input in {file} must be US dollars for a million tokens, from 0 to 1000000, not text",
        ),
        ("prices.m = 3", "prices.m in {file} must be a table of settings, not 3"),
        (
            'prices.m = {input = 1, output = 1, currency = "EUR"}',
            "unknown setting prices.m.currency in {file}",
        ),
    ],
)
def test_a_price_that_is_none_is_refused(home: Path, folder: Path, text: str, message: str) -> None:
    file = home / "config.toml"
    file.write_text(text, encoding="utf-8")
    assert refusal(home, folder)[0] == message.format(file=file)


def test_prices_come_from_files_variables_and_overrides(home: Path, folder: Path) -> None:
    (home / "config.toml").write_text(
        '[prices."openai:a"]\ninput = 1\ncached_input = 0.5\noutput = 2', encoding="utf-8"
    )
    found = load(
        home,
        folder,
        {'prices."b:c".input': "3", 'prices."b:c".output': "4"},
        PRICES='{"d.e" = {input = 5, output = 6}}',
    )
    assert found.prices == {
        "openai:a": {"input": 1.0, "cached_input": 0.5, "output": 2.0},
        "b:c": {"input": 3.0, "output": 4.0},
        "d.e": {"input": 5.0, "output": 6.0},
    }
    assert ('prices."d.e".output', "6.0", "the environment (ROWCREW_PRICES)") in found.shown()


def test_an_empty_folder_of_the_name_of_the_settings_file_says_nothing(home: Path, folder: Path) -> None:
    (folder / "rowcrew.toml").mkdir()
    (folder.parent / "rowcrew.toml").write_text('model = "local"', encoding="utf-8")
    assert load(home, folder).model == "local"
