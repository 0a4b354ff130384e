"""An object store on loopback."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def object_store() -> Iterator[str]:
    """Give the options of an address in the store: what stands after its question mark."""
    from moto.server import ThreadedMotoServer

    with socket.socket() as free, pytest.MonkeyPatch.context() as patch:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        free.close()
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
        server.start()
        try:
            yield f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        finally:
            server.stop()


def put(options: str, name: str, content: bytes) -> None:
    from pyarrow import fs

    system, path = fs.FileSystem.from_uri(f"s3://{name}?{options}&allow_bucket_creation=true")
    system.create_dir(path.split("/")[0])
    with system.open_output_stream(path) as stream:
        stream.write(content)
