"""The settings file, the environment over it, and errors that name what is wrong."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from safelight.config import ConfigError, Settings, load_settings
from safelight.config.reading import parse_settings


def load(folder: Path, text: str, **environment: str) -> Settings:
    """Settings of a file with ``text``."""
    file = folder / "safelight.toml"
    file.write_text(text)
    return load_settings(file, environment)


def test_one_line_names_a_hub_model(tmp_path: Path) -> None:
    """Family, steps and guidance follow from the name."""
    settings = load(tmp_path, 'model = "black-forest-labs/FLUX.1-schnell"')
    assert settings.default_model == "FLUX.1-schnell"
    model = settings.models["FLUX.1-schnell"]
    assert (model.traits.name, model.default_steps, model.default_guidance) == ("flux", 4, 0.0)
    assert (model.usual_size, model.revision) == ("1024x1024", "main")


def test_the_file_that_ships_is_valid() -> None:
    """The repository's own settings load, and their model lies where they say."""
    settings = load_settings(Path(__file__).parents[2] / "safelight.toml", {})
    model = settings.models["scenes"]
    assert Path(model.model, "model_index.json").is_file()
    assert model.prices.per_picture(128, 128, 8) == Decimal("0.0001")


def test_a_certificate_lies_beside_its_settings(tmp_path: Path) -> None:
    """Both files, which need not be there yet; one alone is refused."""
    server = load(tmp_path, 'model = "a/b"\n[server]\ntls_cert = "tls/a.pem"\ntls_key = "/k.pem"').server
    assert (server.tls_cert, server.tls_key) == (str(tmp_path / "tls/a.pem"), "/k.pem")
    with pytest.raises(ConfigError, match="tls_cert and tls_key go together"):
        load(tmp_path, 'model = "a/b"\n[server]\ntls_key = "k.pem"')


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    """URLs and the data folder; an empty variable counts as none."""
    settings = load(
        tmp_path,
        'home = "data"\nbroker = "amqp://file"\nmodel = "a/b"',
        SAFELIGHT_STORE="postgresql://host/database",
        SAFELIGHT_BROKER="",
        SAFELIGHT_OUTPUTS="s3://bucket/prefix",
    )
    assert settings.home == str(tmp_path / "data")
    assert (settings.store, settings.broker) == ("postgresql://host/database", "amqp://file")
    assert settings.outputs == "s3://bucket/prefix"


def test_outputs_lie_below_the_data_folder_by_default(tmp_path: Path) -> None:
    """A file URL of an absolute path."""
    settings = load(tmp_path, 'model = "a/b"', SAFELIGHT_HOME=str(tmp_path / "home"))
    assert settings.outputs == (tmp_path / "home" / "outputs").as_uri()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no model is set"),
        ('modle = "a/b"', "the top level has no key 'modle'; did you mean 'model'?"),
        ('model = "a/b"\n[server]\nport = 70000', "[server] port: "),
        ('model = "a/b"\n[server]\nprot = 1', "safelight.toml: [server] has no key 'prot'; did you mean 'port'?"),
        ('model = "a/b"\n[server]\nwhatever = 1', "there are: host, port"),
        ('model = "a/b"\n[server]\ntrusted_proxies = ["proxy"]', "server: trusted_proxies: 'proxy'"),
        ('model = "a/b"\n[server]\ntrusted_proxies = ["10.0.0.1/8"]', "such as 10.0.0.0/8"),
        ('[modles.x]\nmodel = "a/b"', "did you mean 'model"),
        ('[models.x]\nmodel = "a/b"\nstep = 1', "[models.x] has no key 'step'; did you mean 'steps'?"),
        ('[models.x]\nmodel = "a/b"\nsteps = "8"', "[models.x] steps: "),
        ("[models.x]\nsteps = 8", "[models.x] "),
        ('[models."a b"]\nmodel = "a/b"', "'a b' can't be a model's name"),
        ("models = 1", "[models.NAME]"),
        ('server = 1\nmodel = "a/b"', "server: "),
        ('[models.x]\nmodel = "a/b"\nprice = "one"', "[models.x] price 'one'"),
        ('[models.x]\nmodel = "a/b"\nprice = "-1"', "price"),
        ('[models.x]\nmodel = "a/b"\nprice = "NaN"', "price"),
        ('[models.x]\nmodel = "a/b"\nfamily = "gan"', "family"),
        ('[models.x]\nmodel = "./nowhere"', "does not exist"),
        ('[models.x]\nmodel = "a/b"\nsizes = ["512"]', "sizes"),
        ('[models.x]\nmodel = "a/b"\naliases = ["y"]\n[models.y]\nmodel = "a/c"', "share a name"),
        ('default_model = "z"\n[models.x]\nmodel = "a/b"', "default_model"),
        ('model = "a/b"\n[limits]\nmax_queued = 0', "[limits] max_queued: "),
        ('model = "a/b"\n[limits]\nmax_queue = 1', "did you mean 'max_queued'?"),
        ('model = "a/b"\n[retention]\njobs_days = 0', "[retention] jobs_days: "),
        ('model = "a/b"\n[retention]\nusage_days = "always"', "[retention] usage_days: "),
        ('model = "a/b"\n[retention]\nevery_s = 0', "[retention] every_s: "),
        ('model = "a/b"\n[jobs]\nidempotency_s = -1', "[jobs] idempotency_s: "),
        ('model = "a/b"\n[jobs]\nsdk_retry_window_s = "10"', "[jobs] sdk_retry_window_s: "),
        ('model = "a/b"\nstore = "mysql"', "store"),
        ('model = "a/b"\nbroker = "kafka"', "broker"),
        ('model = "a/b"\noutputs = "/tmp"', "outputs"),
        ("model = ", "safelight.toml is not valid TOML: "),
        ('model = "a/b"\nport: 1', "line 2, column 5"),
        ('model = "a/b"\n[server', "line 2, column 8"),
    ],
)
def test_an_error_names_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    """Nobody has to guess which key it was."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert words in str(caught.value)


def test_a_missing_file_says_where_it_was_sought(tmp_path: Path) -> None:
    """And how to name another."""
    with pytest.raises(ConfigError, match="SAFELIGHT_CONFIG"):
        load_settings(tmp_path / "safelight.toml", {})


def test_other_weights_are_another_revision(tmp_path: Path) -> None:
    """The digest follows content and names, and no notes."""
    folder = tmp_path / "model"
    folder.mkdir()
    weights = folder / "weights.safetensors"
    weights.write_bytes(b"one")
    text = '[models.x]\nmodel = "model"'
    first = load(tmp_path, text).models["x"].revision
    (folder / "README.md").write_text("a note")
    assert load(tmp_path, text).models["x"].revision == first
    weights.write_bytes(b"two")
    assert load(tmp_path, text).models["x"].revision != first


def test_a_model_is_found_by_its_alias(tmp_path: Path) -> None:
    """Under its own name."""
    settings = load(tmp_path, '[models.x]\nmodel = "a/b"\naliases = ["dall-e-3"]')
    found = settings.find_model("dall-e-3")
    assert found is not None
    assert found[0] == "x"
    assert settings.find_model("nothing") is None


def test_ages_are_told_in_seconds(tmp_path: Path) -> None:
    """Whole days and parts of them; what is never deleted has none, and that is the default for the ledger."""
    text = 'model = "a/b"\n[retention]\njobs_days = 2\nevents_days = 0.5\noutputs_days = "never"'
    day = 86_400.0
    assert load(tmp_path, text).retention.ages == {
        "jobs": 2 * day, "events": day / 2, "outputs": None, "cache": 30 * day, "usage": None,
        "deliveries": 14 * day,
    }  # fmt: skip


def test_times_that_could_not_work_are_refused(tmp_path: Path) -> None:
    """A lease of less than two beats; ages, deadlines and prices that no database can hold."""
    file = tmp_path / "safelight.toml"
    for text, word in (
        ("[worker]\nlease_s = 1.5", "lease_s"),
        ("[retention]\njobs_days = inf", "jobs_days"),
        ("[jobs]\nmax_deadline_s = 1e12", "max_deadline_s"),
        ("[jobs]\nidempotency_s = nan", "idempotency_s"),
        ('[models.m]\nmodel = "a/b"\nprice = "1e12"', "price"),
    ):
        file.write_text(f'model = "a/b"\n{text}\n')
        with pytest.raises(ConfigError, match=word):
            load_settings(file, {})


def test_a_sqlite_store_lies_beside_its_settings(tmp_path: Path) -> None:
    """Named in the file it is relative to that; named by the environment, to the working folder."""
    file = tmp_path / "safelight.toml"
    file.write_text('model = "a/b"\nstore = "sqlite:///jobs.db"\n')
    assert load_settings(file, {}).store == f"sqlite:///{tmp_path.resolve() / 'jobs.db'}"
    named = load_settings(file, {"SAFELIGHT_STORE": "sqlite:///other.db"}).store
    assert named == f"sqlite:///{Path('other.db').resolve()}"
    assert load_settings(file, {"SAFELIGHT_STORE": "sqlite:////var/jobs.db"}).store == "sqlite:////var/jobs.db"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            '[engine]\nmemory = "huge"',
            '[engine] memory: Invalid enum value \'huge\'; there are "auto", "resident", "staged"',
        ),
        ('[engine]\ncheckpoint_every_s = "sometimes"', 'there are "never", a number'),
        ("[engine]\ngraphs = true", '[engine] graphs: Expected `str`, got `bool`; there are "auto", "off"'),
        (
            '[models.m]\nmodel = "a"\nquantize = "int3"',
            "[models.m] quantize: Invalid enum value 'int3'; there are \"none\"",
        ),
        ('[engine]\nmax_batch = "x"', "[engine] max_batch: Expected `int`, got `str`"),
    ],
)
def test_a_word_that_is_none_of_a_few_is_told_with_them(line: str, words: str) -> None:
    """And a key of any number or text without."""
    with pytest.raises(ConfigError) as caught:
        parse_settings(line.encode(), Path("safelight.toml"))
    assert words in str(caught.value)
    assert ("there are" in words) == ("there are" in str(caught.value))
