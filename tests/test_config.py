"""Settings: their sources, their precedence, and the errors for wrong ones."""

import os
import pwd
from pathlib import Path

import pytest

from fairlead.config import BadSetting, Config, describe, load, names
from fairlead.model.errors import BadRequest

HOME = {"HOME": "/home/ann"}


def test_defaults_apply_without_any_setting() -> None:
    config = load(HOME).config
    assert (config.host, config.port, config.agent) == ("127.0.0.1", 7433, "auto")
    assert config.data == "/home/ann/.local/share/fairlead"
    assert config.roots == ("/home/ann",)
    assert (config.keeper, config.on_stop, config.orphan_minutes) == (True, "detach", 60.0)


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('port = 1\nagent = "demo"\nallow = ["Bash(ls:*)"]\n')
    env = {**HOME, "FAIRLEAD_PORT": "2", "FAIRLEAD_AGENT": "claude"}
    loaded = load(env, {"agent": "auto", "host": None}, file)
    assert (loaded.config.port, loaded.config.agent, loaded.config.allow) == (2, "auto", ("Bash(ls:*)",))
    assert loaded.sources["port"] == "environment FAIRLEAD_PORT"
    assert loaded.sources["agent"] == "command line"
    assert loaded.sources["allow"] == f"file {file}"
    assert "host" not in loaded.sources


def test_every_setting_has_a_variable_and_a_description(tmp_path: Path) -> None:
    for name in names():
        assert describe(name).endswith(".") or describe(name).endswith("...")
    values = {
        "bool": ("FAIRLEAD_INSECURE_LAN", "yes", "insecure_lan", True),
        "tuple": ("FAIRLEAD_ROOTS", "/a, /b", "roots", ("/a", "/b")),
        "float": ("FAIRLEAD_IDLE_MINUTES", "1.5", "idle_minutes", 1.5),
        "word": ("FAIRLEAD_DURABILITY", "power", "durability", "power"),
    }
    values |= {
        "off": ("FAIRLEAD_KEEPER", "no", "keeper", False),
        "end": ("FAIRLEAD_ON_STOP", "end", "on_stop", "end"),
        "orphans": ("FAIRLEAD_ORPHAN_MINUTES", "0.5", "orphan_minutes", 0.5),
    }
    for variable, text, name, expected in values.values():
        assert getattr(load({**HOME, variable: text}).config, name) == expected
    servers = load({**HOME, "FAIRLEAD_MCP": 'db = {command = "db-server"}'}).config.mcp
    assert servers["db"].command == "db-server"


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"FAIRLEAD_PORTT": "1"}, "Did you mean port?"),
        ({"FAIRLEAD_PORT": "many"}, "Expected `int`"),
        ({"FAIRLEAD_PORT": "70000"}, "<= 65535"),
        ({"FAIRLEAD_SANDBOX": "cobol"}, "Invalid enum value"),
        ({"FAIRLEAD_ON_STOP": "cobol"}, "Invalid enum value"),
        ({"FAIRLEAD_ORPHAN_MINUTES": "0"}, "> 0"),
        ({"FAIRLEAD_INSECURE_LAN": "perhaps"}, "Expected `bool`"),
        ({"FAIRLEAD_MCP": "not toml at all ["}, "Expected `object`"),
        ({"FAIRLEAD_CONFIG": "/nowhere/config.toml"}, "the file does not exist"),
    ],
)
def test_a_wrong_setting_is_named_with_its_source(env: dict[str, str], words: str) -> None:
    with pytest.raises(BadSetting) as caught:
        load({**HOME, **env})
    assert words in caught.value.message
    assert caught.value.code == "bad_setting"


def test_file_that_is_not_toml_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("port = = 1")
    with pytest.raises(BadSetting, match="not TOML"):
        load(HOME, file=file)
    with pytest.raises(BadSetting, match="cannot be read"):
        load(HOME, file=tmp_path)


def test_unknown_key_of_the_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("zzz = 1")
    with pytest.raises(BadSetting, match="does not exist"):
        load(HOME, file=file)


def test_the_default_file_is_used_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "fairlead").mkdir()
    (tmp_path / "fairlead" / "config.toml").write_text("port = 9")
    assert load({**HOME, "XDG_CONFIG_HOME": str(tmp_path)}).config.port == 9


def test_variables_that_are_not_settings_are_ignored() -> None:
    assert load({**HOME, "FAIRLEAD_TOKEN": "x", "FAIRLEAD_URL": "y"}).config == load(HOME).config
    # An agent's process has these, and may run our commands.
    assert load({**HOME, "FAIRLEAD_SESSION_TOKEN": "x", "FAIRLEAD_SESSION_URL": "y"}).config == load(HOME).config
    assert isinstance(load(HOME).config, Config)


def test_relative_paths_are_resolved_against_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"data": "d", "plugins": "p", "tls_cert": "c", "tls_key": "k", "claude": "bin/claude", "shell": "zsh"}
    loaded = load({"HOME": "/home/me", "FAIRLEAD_CONFIG": "x.toml"}, given, _written(tmp_path / "x.toml"))
    config = loaded.config
    assert [config.data, config.plugins, config.tls_cert, config.tls_key, config.claude] == [
        str(tmp_path / name) for name in ("d", "p", "c", "k", "bin/claude")
    ]
    assert (config.shell, config.claude_home) == ("zsh", "")
    assert loaded.file == tmp_path / "x.toml"
    assert load({"HOME": "/home/me"}).file == Path("/home/me/.config/fairlead/config.toml")


def _written(path: Path) -> Path:
    path.write_text("")
    return path


def test_a_user_without_home_and_passwd_entry_names_a_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.chdir(tmp_path)
    loaded = load({}, {"data": "here"})
    assert (loaded.config.data, loaded.config.roots) == (str(tmp_path / "here"), (str(tmp_path),))
    assert str(loaded.file) == "/etc/fairlead/config.toml"
    with pytest.raises(BadRequest, match="--data"):
        load({})


def test_without_home_the_list_of_users_has_the_folder() -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert load({}).config.data == f"{home}/.local/share/fairlead"
