from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from coven.settings.loader import InvalidConfiguration, Loaded, load, load_settings
from coven.settings.schema import Kind, walk
from coven.values import Severity

OLD_SHAPE = """
[server]
bind = "0.0.0.0:3000"
cave_base_url = "https://cave.example.com"
[github]
app_id = 12345
private_key_path = "config/app.pem"
webhook_secret = "0123456789abcdef0123"
[worker]
concurrency = 4
coven_code_bin = "/usr/local/bin/coven-code"
workspace_root = "/srv/workspaces"
timeout_secs = 900
max_retries = 1
backend = "container"
[worker.container]
image = "registry.example.com/coven-code:1"
cpus = 2
memory = "4g"
[[familiars]]
id = "cody"
display_name = "Cody"
bot_username = "cody[bot]"
model = "m"
skills = ["rust"]
trigger_labels = ["cody:fix"]
[review]
familiar = "cody"
pull_request = true
min_severity = "HIGH"
publish = "Advisory_Comment"
[review.repos."Acme/Web"]
include_drafts = true
[storage]
path = "data/coven-github.db"
task_retention_days = 90
[memory]
enabled = true
[memory.repos."acme/web"]
approval_required = false
[gardener]
enabled = true
schedule = "30 3 * * *"
[api]
mode = "token"
service_token = "0123456789abcdef0123456789"
[[api.tenants]]
token = "tenant-0123456789abcdef"
installation_id = 77
repos = ["acme/web"]
[[installations]]
id = 77
account = "acme"
familiars = ["cody"]
[installations.triggers]
labels = false
[installations.limits]
max_concurrent = 2
[installations.repos."acme/web"]
reviews = false
[billing]
require_plan = false
"""


def read(tmp_path: Path, text: str, **environ: str) -> Loaded:
    path = tmp_path / "coven-github.toml"
    path.write_text(text)
    return load(path, environ, tmp_path)


def lines(loaded: Loaded) -> list[str]:
    return [str(problem) for problem in loaded.problems]


def one(loaded: Loaded) -> str:
    assert len(loaded.problems) == 1, lines(loaded)
    return lines(loaded)[0]


def test_a_configuration_of_the_established_shape_loads(tmp_path: Path) -> None:
    loaded = read(tmp_path, OLD_SHAPE)
    assert lines(loaded) == []
    settings = loaded.settings
    assert settings is not None
    assert settings.worker.container.memory == "4g"
    assert settings.review.min_severity is Severity.HIGH
    assert settings.review.publish == "advisory_comment"
    assert settings.installations[0].limits.max_concurrent == 2
    assert settings.storage.path == tmp_path / "data/coven-github.db"
    assert settings.github.private_key_path == tmp_path / "config/app.pem"


def test_without_any_file_the_defaults_serve(tmp_path: Path) -> None:
    loaded = load(None, {}, tmp_path)
    assert loaded.source is None
    assert loaded.problems == ()
    assert loaded.settings is not None


def test_the_order_of_finding(tmp_path: Path) -> None:
    for name in ("coven-github.toml", "env.toml", "arg.toml"):
        (tmp_path / name).write_text(f'[commands]\nalias = "{name[:3]}"\n')
    environ = {"COVEN_GITHUB_CONFIG": "env.toml"}
    assert load_settings(Path("arg.toml"), environ, tmp_path).commands.alias == "arg"
    assert load_settings(None, environ, tmp_path).commands.alias == "env"
    assert load_settings(None, {}, tmp_path).commands.alias == "cov"
    assert load_settings(None, {"COVEN_GITHUB_CONFIG": " "}, tmp_path).commands.alias == "cov"


@pytest.mark.parametrize("variable", [None, "missing.toml"])
def test_a_named_file_that_is_missing_is_never_ignored(
    tmp_path: Path, variable: str | None
) -> None:
    environ = {"COVEN_GITHUB_CONFIG": variable} if variable else {}
    loaded = load(None if variable else Path("missing.toml"), environ, tmp_path)
    assert loaded.unreadable
    assert "there is no file" in one(loaded)
    assert "missing.toml" in one(loaded)


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    path = tmp_path / "etc" / "c.toml"
    path.write_text('[server]\nstate_dir = "state"\n[worker]\ncoven_code_bin = "./bin/cc"\n')
    settings = load_settings(path, {}, tmp_path)
    assert settings.server.state_dir == tmp_path / "etc" / "state"
    assert settings.worker.coven_code_bin == str(tmp_path / "etc" / "bin" / "cc")


def test_a_bare_program_name_stays_one(tmp_path: Path) -> None:
    settings = read(tmp_path, '[worker]\ncoven_code_bin = "coven-code"').settings
    assert settings is not None
    assert settings.worker.coven_code_bin == "coven-code"


@pytest.mark.parametrize(
    ("home", "expected"),
    [("/home/op", "/home/op/.local/state/coven-github"), ("/tmp/h", "/var/lib/coven-github")],
)
def test_the_default_state_dir_is_never_under_tmp(home: str, expected: str) -> None:
    loaded = load(None, {"HOME": home}, Path("/tmp"))
    assert loaded.settings is not None
    assert loaded.settings.server.state_dir == Path(expected)


def test_the_default_state_dir_lies_beside_the_configuration() -> None:
    loaded = load(None, {}, Path("/srv/coven"))
    assert loaded.settings is not None
    assert loaded.settings.server.state_dir == Path("/srv/coven/var/coven-github")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[installatons]\n", "installatons: is no known key; did you mean 'installations'?"),
        ("[server]\nbnd = 'x'\n", "server.bnd: is no known key; did you mean 'bind'?"),
        ("[billing]\nrequire_plans = true\n", "did you mean 'require_plan'?"),
        ('[review.repos."o/n"]\npublsh = "x"\n', 'review.repos."o/n".publsh: is no known key'),
        ("[worker.container]\nimages = 'x'\n", "worker.container.images"),
        ("[github]\nwebhook_secret_fil = 'x'\n", "did you mean 'webhook_secret_file'?"),
        ("[zzzzzz]\n", "zzzzzz: is no known key; remove it"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(tmp_path: Path, text: str, said: str) -> None:
    assert said in one(read(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[worker]\ntimeout_secs = 0", "worker.timeout_secs"),
        ("[worker]\ntimeout_secs = -1", "worker.timeout_secs"),
        ("[worker]\ntimeout_secs = 1_000_000_000", "worker.timeout_secs"),
        ("[worker]\ntimeout_secs = '30m'", "worker.timeout_secs"),
        ("[worker]\ntimeout_secs = 1.5", "worker.timeout_secs"),
        ("[worker]\ntimeout_secs = true", "worker.timeout_secs"),
        ("[worker]\ngrace_secs = nan", "worker.grace_secs"),
        ("[worker]\ngrace_secs = inf", "worker.grace_secs"),
        ("[worker]\nmax_retries = 1000", "worker.max_retries"),
        ("[worker]\nconcurrency = '4'", "worker.concurrency"),
        ("[worker]\nallow_host_backend = 'yes'", "worker.allow_host_backend"),
        ("[worker]\nallow_host_backend = 1", "worker.allow_host_backend"),
        ("[worker]\nbackend = 'firecracker'", "worker.backend"),
        ("[worker]\nenv_allow = 'KEY'", "worker.env_allow"),
        ("[worker]\nworkspace_root = 7", "worker.workspace_root"),
        ("[worker.container]\nmemory = '2 GB'", "worker.container.memory"),
        ("[memory]\nretention_days = 0", "memory.retention_days"),
        ("[storage]\ntask_retention_days = 0", "storage.task_retention_days"),
        ("[storage]\npath = 2026-12-01", "storage.path"),
        ("[github]\napp_id = 'abc'", "github.app_id"),
        ("[github]\napi_base_url = 'http://ghe.example.com'", "github.api_base_url"),
        ("[github]\napi_base_url = 'https://u:p@ghe.example.com/api/v3'", "github.api_base_url"),
        ("[github]\napi_base_url = 'https://[bad'", "github.api_base_url"),
        ("[github]\nwebhook_secrets = ['0123456789abcdef', 3]", "github.webhook_secrets"),
        ("[review]\nfail_on = 'banana'", "review.fail_on"),
        ("[review]\nmin_severity = 3", "review.min_severity"),
        ("[gardener]\nautonomy = 'full'", "gardener.autonomy"),
        ("[commands]\nalias = '-x-'", "commands.alias"),
        ("worker = 3", "worker"),
        ("familiars = 3", "familiars"),
        ("familiars = [3]", "familiars[0]"),
        ("[[installations]]\nid = 0", "installations[0].id"),
        ("[[installations]]\naccount = 'a'", "installations[0].id"),
        ("[[familiars]]\nid = 'Bad Id'\ndisplay_name = 'a'\nbot_username = 'b'", "familiars[0].id"),
    ],
)
def test_a_bad_value_is_one_line_that_names_the_key(tmp_path: Path, text: str, key: str) -> None:
    line = one(read(tmp_path, text))
    assert line.startswith(key)
    assert "; " in line
    assert "\n" not in line


def test_all_problems_come_at_once_and_the_rest_stays_usable(tmp_path: Path) -> None:
    loaded = read(
        tmp_path,
        "[worker]\ntimeout_secs = 0\nmax_retries = 99\nconcurrency = 3\n[servr]\n"
        "[github]\nwebhook_secret = 'CHANGE_ME'\n"
        "[[familiars]]\nid = 'x'\n"
        "[[familiars]]\nid = 'ok'\ndisplay_name = 'Ok'\nbot_username = 'ok[bot]'\n",
        COVEN_GITHUB__LOGGING__LEVEL="loud",
        COVEN_GITHUB__LOGGIN__LEVEL="info",
    )
    assert sorted(problem.key for problem in loaded.problems) == [
        "COVEN_GITHUB__LOGGIN__LEVEL",
        "familiars[0].bot_username",
        "familiars[0].display_name",
        "github.webhook_secret",
        "logging.level",
        "servr",
        "worker.max_retries",
        "worker.timeout_secs",
    ]
    assert loaded.settings is not None
    assert loaded.settings.worker.concurrency == 3
    assert [f.id for f in loaded.settings.familiars] == ["ok"]


def test_load_settings_raises_with_every_problem(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[servr]\n[worker]\nmax_retries = 99\n")
    with pytest.raises(InvalidConfiguration) as caught:
        load_settings(path, {}, tmp_path)
    assert len(caught.value.problems) == 2
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"[server\n",
        b"a = 1\na = 2\n",
        b"key = ghs_secretsecretsecretsecret\n",
        b"\xff\xfe[server]",
        b"a = " + b"[" * 50_000,
        b"a = 1\n" * 400_000,
    ],
)
def test_an_unparseable_file_is_one_plain_line_without_its_content(
    tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(data)
    started = time.monotonic()
    loaded = load(path, {}, tmp_path)
    assert time.monotonic() - started < 2
    assert loaded.unreadable
    assert loaded.settings is None
    assert "ghs_secret" not in one(loaded)
    assert str(path) in one(loaded)


def test_a_file_saved_on_another_system_loads(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(b'\xef\xbb\xbf[commands]\r\nalias = "coven"\r\n')
    assert load_settings(path, {}, tmp_path).commands.alias == "coven"


@pytest.mark.parametrize(
    ("given_url", "api", "html"),
    [
        ("https://api.github.com", "https://api.github.com", "https://github.com"),
        ("https://ghe.example.com", "https://ghe.example.com/api/v3", "https://ghe.example.com"),
        ("https://ghe.example.com/", "https://ghe.example.com/api/v3", "https://ghe.example.com"),
        (
            "https://ghe.example.com/api/v3/",
            "https://ghe.example.com/api/v3",
            "https://ghe.example.com",
        ),
        ("https://octo.ghe.com", "https://api.octo.ghe.com", "https://octo.ghe.com"),
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000", "https://github.com"),
    ],
)
def test_the_address_of_an_enterprise_server_in_any_form(
    tmp_path: Path, given_url: str, api: str, html: str
) -> None:
    settings = read(tmp_path, f"[github]\napi_base_url = '{given_url}'").settings
    assert settings is not None
    assert (settings.github.api_base_url, settings.github.html_base_url) == (api, html)


def test_a_configured_web_address_is_kept(tmp_path: Path) -> None:
    text = "[github]\napi_base_url = 'https://ghe.example.com'\nhtml_base_url = 'https://g.example'"
    settings = read(tmp_path, text).settings
    assert settings is not None
    assert settings.github.html_base_url == "https://g.example"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_a_database_address_gets_the_driver_that_we_have(tmp_path: Path, scheme: str) -> None:
    settings = read(tmp_path, f"[storage]\ndatabase_url = '{scheme}://u@h/d'").settings
    assert settings is not None
    assert settings.database_url == "postgresql+psycopg://u@h/d"


# --- secrets ---------------------------------------------------------------------------------


def test_every_secret_has_a_file_form(tmp_path: Path) -> None:
    secret_keys = [key for key, shape in walk() if shape.kind in (Kind.SECRET, Kind.SECRET_LIST)]
    assert len(secret_keys) >= 10
    for key in secret_keys:
        (tmp_path / "s").write_text("0123456789abcdef0123456789abcdef\n")
        section, _, name = key.rpartition(".")
        header = "[[api.tenants]]\ninstallation_id = 1" if "[]" in key else f"[{section}]"
        loaded = read(tmp_path, f'{header}\n{name}_file = "s"\n')
        assert lines(loaded) == [], key
        assert loaded.settings is not None
        assert "0123456789abcdef" not in repr(loaded.settings)


def test_a_secret_file_by_toml_and_by_environment(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("from-file-0123456789\r\n")
    (tmp_path / "list").write_text("first-0123456789abc\n\nsecond-0123456789ab\n")
    loaded = read(
        tmp_path,
        '[github]\nwebhook_secret_file = "one"\n',
        COVEN_GITHUB__GITHUB__WEBHOOK_SECRETS_FILE=str(tmp_path / "list"),
    )
    assert lines(loaded) == []
    assert loaded.settings is not None
    assert loaded.settings.github.active_webhook_secrets() == (
        b"from-file-0123456789",
        b"first-0123456789abc",
        b"second-0123456789ab",
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no file"),
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xff\xfe\x00", "text"),
    ],
)
def test_a_bad_secret_file_is_named(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "s").write_bytes(content)
    line = one(read(tmp_path, '[github]\nwebhook_secret_file = "s"\n'))
    assert line.startswith("github.webhook_secret_file")
    assert said in line


def test_a_huge_secret_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"x" * 100_000)
    assert "larger" in one(read(tmp_path, '[github]\nwebhook_secret_file = "s"\n'))
    assert "there is no file" in one(read(tmp_path, '[github]\nwebhook_secret_file = "."\n'))


def test_a_pipe_as_secret_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "there is no file" in one(read(tmp_path, '[github]\nwebhook_secret_file = "pipe"\n'))


def test_both_forms_of_one_secret_are_refused(tmp_path: Path) -> None:
    text = "[github]\nwebhook_secret = '0123456789abcdef'\nwebhook_secret_file = 's'\n"
    assert "is set together with webhook_secret" in one(read(tmp_path, text))
    loaded = read(
        tmp_path,
        "",
        COVEN_GITHUB__GITHUB__WEBHOOK_SECRET="0123456789abcdef",
        COVEN_GITHUB__GITHUB__WEBHOOK_SECRET_FILE="s",
    )
    assert "is set together with" in one(loaded)


@pytest.mark.parametrize(
    "value",
    [
        "CHANGE_ME",
        "changeme",
        "replace-with-a-random-webhook-secret",
        "Replace-Me",
        "your-secret",
        "secret",
        " secret ",
        "<your webhook secret>",
    ],
)
def test_placeholders_are_refused_wherever_a_secret_stands(tmp_path: Path, value: str) -> None:
    (tmp_path / "s").write_text(f"{value}\n")
    for text in (
        f"[github]\nwebhook_secret = '{value}'",
        f"[github]\nwebhook_secrets = ['0123456789abcdef', '{value}']",
        "[github]\nwebhook_secret_file = 's'",
        "[github]\nwebhook_secrets_file = 's'",
        f"[[api.tenants]]\ninstallation_id = 1\ntoken = '{value}'",
        f"[api]\nservice_token = '{value}'",
        f"[server]\nsecret_key = '{value}'",
    ):
        loaded = read(tmp_path, text)
        assert any("placeholder" in line for line in lines(loaded)), text


def test_a_blank_secret_is_no_secret(tmp_path: Path) -> None:
    assert "is blank" in one(read(tmp_path, "[github]\nwebhook_secret = '  '"))


def test_a_variable_set_but_empty_counts_as_missing(tmp_path: Path) -> None:
    loaded = read(tmp_path, "", COVEN_GITHUB__GITHUB__WEBHOOK_SECRET="")
    assert loaded.problems == ()
    assert loaded.settings is not None
    assert loaded.settings.github.active_webhook_secrets() == ()


@limits(deadline=None, max_examples=60)
@given(secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=20, max_size=40))
def test_no_message_ever_repeats_a_secret(secret: str) -> None:
    environ = {
        "COVEN_GITHUB__GITHUB__WEBHOOK_SECRET": secret,
        "COVEN_GITHUB__GITHUB__WEBHOOK_SECRETS": f'["{secret}", 3]',
        "COVEN_GITHUB__API__TENANTS": f'[{{"token": "{secret}", "installation_id": 0, "x": 1}}]',
        "COVEN_GITHUB__QUEUE__BROKER_URL_FILE": secret,
        "COVEN_GITHUB__QUEUE__BROKER_URL": secret,
    }
    loaded = load(None, environ, Path("/srv/coven"))
    assert loaded.problems
    assert not any(secret in line for line in lines(loaded))


def test_a_secret_pasted_as_a_key_is_cut(tmp_path: Path) -> None:
    pasted = "k" * 300
    assert pasted not in one(read(tmp_path, f"{pasted} = 1"))


# --- environment -----------------------------------------------------------------------------


def test_every_kind_of_key_by_environment(tmp_path: Path) -> None:
    loaded = read(
        tmp_path,
        "[worker]\nconcurrency = 1\nmax_retries = 7\n",
        COVEN_GITHUB__WORKER__CONCURRENCY="3",
        COVEN_GITHUB__WORKER__GRACE_SECS="2.5",
        COVEN_GITHUB__WORKER__ALLOW_HOST_BACKEND="Yes",
        COVEN_GITHUB__WORKER__BACKEND="HOST",
        COVEN_GITHUB__WORKER__ENV_ALLOW="A_KEY, B_KEY",
        COVEN_GITHUB__WORKER__CONTAINER__PIDS="99",
        COVEN_GITHUB__SERVER__STATE_DIR="state",
        COVEN_GITHUB__GITHUB__WEBHOOK_SECRETS="first-0123456789,x\nsecond-0123456789",
        COVEN_GITHUB__FAMILIARS='[{"id":"a","display_name":"A","bot_username":"a[bot]"}]',
        COVEN_GITHUB__REVIEW__REPOS='{"o/n": {"publish": "review"}}',
        COVEN_GITHUB__INSTALLATIONS='[{"id": 5, "limits": {"max_concurrent": 1}}]',
    )
    assert lines(loaded) == []
    settings = loaded.settings
    assert settings is not None
    assert settings.worker.concurrency == 3
    assert settings.worker.max_retries == 7
    assert settings.worker.grace_secs == 2.5
    assert settings.worker.allow_host_backend
    assert settings.worker.backend == "host"
    assert settings.worker.env_allow == ("A_KEY", "B_KEY")
    assert settings.worker.container.pids == 99
    assert settings.server.state_dir == tmp_path / "state"
    assert [len(s) for s in settings.github.active_webhook_secrets()] == [18, 17]
    assert settings.familiars[0].handle == "a"
    assert settings.review.repos["o/n"].publish == "review"
    assert settings.installations[0].limits.max_concurrent == 1


def test_a_variable_replaces_the_file_form_of_its_key(tmp_path: Path) -> None:
    loaded = read(
        tmp_path,
        "[github]\nwebhook_secret_file = 'missing'\n",
        COVEN_GITHUB__GITHUB__WEBHOOK_SECRET="0123456789abcdef",
    )
    assert lines(loaded) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("COVEN_GITHUB__SERVR__BIND", "x", "did you mean COVEN_GITHUB__SERVER__BIND?"),
        ("COVEN_GITHUB__SERVER__BNID", "x", "did you mean COVEN_GITHUB__SERVER__BIND?"),
        ("COVEN_GITHUB__QQQQQQ", "x", "is no known setting"),
        ("COVEN_GITHUB__", "x", "is no known setting"),
        ("COVEN_GITHUB__WORKER__BACKEND__X", "x", "is no known setting"),
        ("COVEN_GITHUB__WORKER__TIMEOUT_SECS", "30m", "whole number, without a unit"),
        ("COVEN_GITHUB__WORKER__TIMEOUT_SECS", "1_0", "whole number, without a unit"),
        ("COVEN_GITHUB__WORKER__NETWORK", "maybe", "true or false"),
        ("COVEN_GITHUB__FAMILIARS", "{", "written as JSON"),
        ("COVEN_GITHUB__FAMILIARS", "{}", "an array of tables, written as JSON"),
        ("COVEN_GITHUB__WORKER", "[]", "a table, written as JSON"),
    ],
)
def test_a_bad_variable_is_named_with_its_fix(
    tmp_path: Path, name: str, value: str, said: str
) -> None:
    line = one(read(tmp_path, "", **{name: value}))
    assert line.startswith(name)
    assert said in line


@limits(deadline=None, max_examples=100)
@given(st.text(max_size=300))
def test_no_text_in_the_file_makes_a_traceback(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.toml"
        path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        loaded = load(path, {}, Path(folder))
    assert loaded.settings is not None or loaded.problems


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@limits(deadline=None, max_examples=100)
@given(st.sampled_from(sorted({k.split(".")[0].split("[")[0] for k, _ in walk()})), _json)
def test_no_shape_of_a_section_makes_a_traceback(section: str, value: object) -> None:
    import json

    environ = {f"COVEN_GITHUB__{section.upper()}": json.dumps(value) or " "}
    loaded = load(None, environ, Path("/srv/coven"))
    assert loaded.settings is not None or loaded.problems
