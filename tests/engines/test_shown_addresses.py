"""Credentials in an address are printed by no command, whatever is wrong with the address."""

from __future__ import annotations

from pathlib import Path

import pytest

from overstory.cli.main import main
from overstory.engines.folders import Folder, FolderError, shown_address, without_secrets
from overstory.engines.places import Place, find_places, find_sets
from overstory.engines.units import BLOCKS, Unit
from overstory.protocol.errors import FormatError, OverstoryError, ParameterError
from support.exported_store import export_all, fill, registry, registry_toml
from support.object_store import put

SECRETS = ("AKIAKEY", "S3CR", "TPASS", "T0KEN")
ADDRESSES = [
    "s3://AKIAKEY:S3CRETPASS@bucket/folder?STORE",
    "s3://AKIAKEY:S3CR%2FETPASS@bucket/*.parquet?STORE",
    "s3://AKIAKEY:S3CR/ETPASS@bucket/folder?STORE",
    "s3://AKIAKEY:S3CR?ETPASS@bucket/folder",
    "s3://AKIAKEY:S3CRETPASS@bucket/folder?token=T0KEN",
    "nowhere://AKIAKEY:S3CRETPASS@bucket/folder",
    "s3://AKIAKEY:S3CRETPASS@bucket/not an address",
]
COMMANDS = [
    "sum {} -o counts.csv",
    "sum --json --engine local {} -o counts.csv",
    "sum {0} {0} -o counts.csv",
    "sum --params params.csv {} -o counts.csv",
    "sum --params params.csv {} --skip-bad -o counts.csv",
    "decode {} --registry metrics.toml --metric bloom",
    "decode {} --store store.db --registry metrics.toml --metric bloom",
    "decode {} --counts counts.csv",
    "discover --reports {} --registry metrics.toml --metric bloom",
    "convert {} -o out.parquet",
    "export --store store.db --registry metrics.toml {}",
    "export --store store.db --registry metrics.toml --verify {}",
    "import --store store.db --registry metrics.toml {}",
    "import --store store.db --nonsense {}",
    "export --store store.db --registry metrics.toml elsewhere {}",
    "sum {} --engine nonsense",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    (tmp_path / "metrics.toml").write_text(registry_toml())
    (tmp_path / "params.csv").write_text("k,h,m,p,q,f\n16,2,4,.25,.75,.5\n")
    fill("sqlite:///store.db", registry(), size=9)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.usefixtures("folder")
def test_no_command_prints_a_secret(address: str, bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    address = address.replace("STORE", bucket)
    for command in COMMANDS:
        status = main([word.format(address) for word in command.split(" ")])
        printed = capsys.readouterr()
        assert status in {1, 2}, command
        said = printed.out + printed.err
        assert said, command
        assert not [secret for secret in SECRETS if secret in said], (command, said)


@pytest.mark.parametrize("address", [*ADDRESSES[2:4], *ADDRESSES[5:]])
def test_no_error_has_a_secret(address: str) -> None:
    for read in (lambda text: find_places([text]), find_sets, Folder):
        with pytest.raises(OverstoryError) as caught:
            read(address)
        assert not [secret for secret in SECRETS if secret in str(caught.value)]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://K:S@bucket/a@b/x.parquet?region=a", "s3://bucket/a@b/x.parquet"),
        ("s3://K:S/T@bucket/x", "s3://bucket/x"),
        ("s3://K:S", "s3://..."),
        ("hdfs://me@host:9000/x", "hdfs://host:9000/x"),
        ("hdfs://host:9000/a@b", "hdfs://host:9000/a@b"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("/tmp/K:S@x?y", "/tmp/K:S@x?y"),
    ],
)
def test_what_is_shown(address: str, shown: str) -> None:
    assert shown_address(address) == shown
    assert Place(address, 0, "").shown == Unit(0, address, BLOCKS, 0, 1, 0, 0).shown == shown


def test_secrets_are_left_out_of_what_a_library_says() -> None:
    address = "s3://KEY:a%2Fsecret@bucket/x?session=T0KEN&region=eu"
    for said in (f"cannot parse '{address}'", "wrong: a/secret", "KEY:a/secret@", "a%2Fsecret", "T0KEN in eu"):
        cleaned = without_secrets(said, address)
        assert not [secret for secret in ("secret", "T0KEN") if secret in cleaned]
    assert without_secrets("T0KEN in eu", address) == "... in eu"


@pytest.mark.slow
def test_what_succeeds_prints_no_secret(bucket: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(bucket, "shown/notes.txt", b"no reports")
    address = f"s3://AKIAKEY:S3CRETPASS@shown/reports?{bucket}"
    export_all("sqlite:///store.db", registry(), address)
    commands = [
        "export --store store.db --registry metrics.toml --json {}",
        "export --store store.db --registry metrics.toml --verify {}",
        "sum {}/metric=bloom --json --resume kept -o counts.csv",
        "sum {}/metric=bloom --dry-run -o counts.csv",
        "decode {} --registry metrics.toml --metric size --json --engine local",
    ]
    for command in commands:
        base, _, options = address.partition("?")
        words = [f"{base}{word[2:]}?{options}" if word.startswith("{}") else word for word in command.split(" ")]
        status = main(words)
        printed = capsys.readouterr()
        assert status == 0, (command, printed.err)
        assert not [secret for secret in SECRETS if secret in printed.out + printed.err]
    raw = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    assert not [secret for secret in SECRETS if secret.encode() in raw]
    part = find_places([address.replace("reports?", "reports/metric=bloom?")])[0]
    other = part.address.replace("AKIAKEY:S3CRETPASS", "test:test")
    for twice in ([part.address, other], [part.address, part.address]):
        with pytest.raises((ParameterError, FormatError), match="is named twice") as caught:
            find_places(twice)
        assert "S3CRETPASS" not in str(caught.value)
    with pytest.raises(FolderError) as failed:
        Folder(address).read("absent.json")
    assert "S3CRETPASS" not in str(failed.value)
