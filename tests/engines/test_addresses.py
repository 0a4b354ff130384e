"""Addresses of object stores: no command prints their credentials, and a store that does not answer is called so."""

import io

import pytest
from pyarrow import fs

from overstory.cli.main import main
from overstory.engines import folders
from overstory.engines.folders import Folder, FolderError, shown_address, without_secrets
from overstory.engines.places import Place, find_places, find_sets
from overstory.engines.units import Unit
from overstory.files.parquet import label_of, opened, read_row_groups
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
    "decode {} --registry metrics.toml --metric bloom",
    "decode {} --store store.db --registry metrics.toml --metric bloom",
    "export --store store.db --registry metrics.toml {}",
    "export --store store.db --registry metrics.toml elsewhere {}",
    "sum {} --engine nonsense",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
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
def test_no_command_prints_a_secret(address, bucket, capsys):
    address = address.replace("STORE", bucket)
    for command in COMMANDS:
        status = main([word.format(address) for word in command.split(" ")])
        printed = capsys.readouterr()
        assert status in {1, 2}, command
        said = printed.out + printed.err
        assert said, command
        assert not [secret for secret in SECRETS if secret in said], (command, said)


@pytest.mark.parametrize("address", [*ADDRESSES[2:4], *ADDRESSES[5:]])
def test_no_error_has_a_secret(address):
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
def test_what_is_shown(address, shown):
    assert shown_address(address) == shown
    assert Place(address, 0, "").shown == Unit(0, address, 0, 1, 0, 0).shown == shown


def test_secrets_are_left_out_of_what_a_library_says():
    address = "s3://KEY:a%2Fsecret@bucket/x?session=T0KEN&region=eu"
    for said in (f"cannot parse '{address}'", "wrong: a/secret", "KEY:a/secret@", "a%2Fsecret", "T0KEN in eu"):
        cleaned = without_secrets(said, address)
        assert not [secret for secret in ("secret", "T0KEN") if secret in cleaned]
    assert without_secrets("T0KEN in eu", address) == "... in eu"


@pytest.mark.slow
def test_what_succeeds_prints_no_secret(bucket, folder, capsys):
    put(bucket, "shown/notes.txt", b"no reports")
    address = f"s3://AKIAKEY:S3CRETPASS@shown/reports?{bucket}"
    export_all("sqlite:///store.db", registry(), address)
    commands = [
        "export --store store.db --registry metrics.toml --json {}",
        "sum {}/metric=bloom --json -o counts.csv",
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


REFUSED = "When listing objects under key '' in bucket 'b': AWS Error NETWORK_CONNECTION during ListObjectsV2"


class System:
    """A file system that lists nothing, and knows, or does not know, what an object is."""

    def __init__(self, kind):
        self.kind = kind

    def get_file_info(self, asked):
        if self.kind is None or isinstance(asked, fs.FileSelector):
            raise OSError(REFUSED)
        return fs.FileInfo(asked, self.kind)


@pytest.mark.parametrize("kind", [None, fs.FileType.Directory, fs.FileType.NotFound])
def test_a_store_that_does_not_answer_is_not_passed_over(monkeypatch, capsys, kind):
    monkeypatch.setattr(folders, "file_system", lambda _address: (System(kind), "b/day"))
    assert main(["decode", "s3://b/day", "--registry", "metrics.toml"]) == 2
    assert "overstory: error: s3://b/day: when listing objects" in capsys.readouterr().err


class Failing(io.BytesIO):
    def __init__(self, content, error):
        super().__init__(content)
        self.error, self.reads = error, 0

    def read(self, size=-1, /):
        self.reads += 1
        if self.reads > 1:
            raise self.error
        return super().read(size)


@pytest.mark.parametrize(
    "error",
    [
        OSError("AWS Error NETWORK_CONNECTION during GetObject operation"),
        OSError(5, "Input/output error"),
        ConnectionResetError("reset by the store"),
        TimeoutError("no answer"),
        MemoryError(),
    ],
)
def test_what_the_system_says_is_not_said_of_the_file(collection, error):
    raw = Failing((collection().folder / "b.parquet").read_bytes(), error)
    with pytest.raises(type(error)) as caught, opened(raw, "b.parquet") as file:
        list(read_row_groups(file, label_of(file, "b.parquet"), "b.parquet"))
    assert not isinstance(caught.value, FormatError)
