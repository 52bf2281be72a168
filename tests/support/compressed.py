"""Files as other programs compress them."""

import io
import sys
import zipfile

import pytest


def zstd(content, **options):
    module = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")
    options = {getattr(module.CompressionParameter, name): value for name, value in options.items()}
    return (stream := module.ZstdCompressor(options=options)).compress(content) + stream.flush()


def archive(*members, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        for name, content in members:
            made.writestr(name, content)
    return file.getvalue()


def zipped(content, name="lines.jsonl"):
    return archive(("data/", b""), (f"data/{name}", content), (f"__MACOSX/data/._{name}", b"Mac"))
