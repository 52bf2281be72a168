"""Files as other programs compress them."""

import io
import sys
import zipfile

import pytest


def zstd(content, **options):
    """The content as a zst file; the test is skipped, with a reason, where Python has no zstd."""
    module = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")
    options = {getattr(module.CompressionParameter, name): value for name, value in options.items()}
    return (stream := module.ZstdCompressor(options=options)).compress(content) + stream.flush()


def archive(*members, method=zipfile.ZIP_DEFLATED):
    """A ZIP archive of (name, content)."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        for name, content in members:
            made.writestr(name, content)
    return file.getvalue()


def zipped(content, name="lines.jsonl"):
    """An archive as macOS writes it: a folder, a file, and a resource fork."""
    return archive(("data/", b""), (f"data/{name}", content), (f"__MACOSX/data/._{name}", b"Mac"))
