import bz2
import gzip
import lzma

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.compressed import zipped, zstd
from support.oracles_svmlight import parse_block

from hpcml import mpi
from hpcml.data import svmlight
from hpcml.data.svmlight import SvmlightStream, join_lines, parse_lines, parse_slowly
from hpcml.errors import DataError

COMPRESS = {"plain": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd, "zip": zipped}


def text_of(lines):
    return np.frombuffer(join_lines(lines), dtype=np.uint8)


def fast(lines, zero_based=False):
    handed_back = []
    original = svmlight.parse_slowly
    svmlight.parse_slowly = lambda block, zero_based, wrong: handed_back.append(block)
    try:
        rows = parse_lines(text_of(lines), zero_based, {})
    finally:
        svmlight.parse_slowly = original
    return None if handed_back else exactly(rows)


def exactly(rows):
    lengths, indices, data, label_lengths, labels, width = rows
    assert (indices.dtype, data.dtype, labels.dtype) == (np.int32, np.float32, np.float64)
    return lengths.tolist(), indices.tolist(), data.tobytes(), label_lengths.tolist(), labels.tobytes(), width


def slow(lines, zero_based=False):
    rows = parse_slowly(lines, zero_based, wrong := {})
    return None if wrong else exactly(rows)


def read(path, **options):
    with SvmlightStream(mpi.self_comm(), path, **options) as stream:
        return list(stream)


def joined(blocks):
    at = blocks[0].first_row
    for block in blocks:
        assert block.first_row == at
        assert block.indptr[0] == block.y_indptr[0] == 0
        at += block.n_rows
    columns = zip(*((np.diff(b.indptr), b.indices, b.data, np.diff(b.y_indptr), b.labels) for b in blocks), strict=True)
    return tuple(np.concatenate(column).tobytes() for column in columns)


mantissas = st.one_of(st.integers(0, 10**19 - 1), st.integers(0, 2**54), st.integers(0, 9999))
numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{:.{}g}".format, st.floats(1e-40, 1e37), st.integers(1, 19)),
    st.builds("{:.{}f}".format, st.floats(0, 1e4), st.integers(0, 15)),
    st.builds("{}e{}".format, mantissas, st.integers(-310, 290)),
    st.builds("{}{}.{}E{:+}".format, st.sampled_from(["", "+", "-"]), mantissas, st.integers(0, 99), st.integers(-30, 20)),
    # half-way between two doubles, or one off
    st.builds(lambda m, k, d: str(((m | 1 << 52) * 2 + 1 << k) + d), st.integers(0, 2**52), st.integers(0, 9), st.integers(-1, 1)),
    st.sampled_from(["0", "-0", "00012.5000", "1.", ".5", "-.5e-3", "1e5", "0e99", "0.00000000000000000000012345", "9" * 19]),
)


@given(st.lists(numbers, min_size=1, max_size=20))
@settings(max_examples=100)
@example(["9007199254740993", "9007199254740991e22", "1e23", "1e-307", "9999999999999999999e288", "123456789012345678e-30"])
def test_numbers_are_rounded_as_python_does(texts):
    for text in texts:
        found = fast(f"{text}\n".encode())
        assert found is None or found[4] == np.array([float(text)]).tobytes()
        found = fast(f"1:{text}\n".encode())
        assert found is None or found[2] == np.array([float(text)] if float(text) else [], np.float32).tobytes()


def test_fast_parser_reads_seventeen_digits():
    values = np.random.default_rng(0).standard_normal(2000) * 10.0 ** np.random.default_rng(1).integers(-26, 20, 2000)
    assert fast("".join(f"1:{value!r}\n" for value in values.tolist()).encode())[2] == values.astype(np.float32).tobytes()


blanks = st.text(" \t", min_size=1, max_size=2)
small = st.floats(-8192, 8192, width=32).map("{:.6g}".format)
plain = st.one_of(st.integers(0, 99999).map(str), small, st.sampled_from(["0", "-0.0", "1e-9"]))
pairs = st.dictionaries(st.integers(1, 10**7), plain, max_size=6).map(lambda row: [f"{j}:{row[j]}" for j in sorted(row)])
lines = st.builds(
    lambda lead, labels, pairs, gap, end: lead + gap.join([*([",".join(labels)] if labels else []), *pairs]) + end,
    st.sampled_from(["", " ", "\t"]),
    st.lists(plain, max_size=4),
    pairs,
    blanks,
    st.sampled_from(["", " ", "\r", " # qid:1 1_0 \u00e4", "#", "\x0b\x0c"]),
)


@given(st.lists(lines, max_size=8), st.booleans(), st.booleans())
def test_fast_parser_equals_slow_parser(table, zero_based, newline):
    block = "\n".join(table).encode() + b"\n" * newline
    assert fast(block, zero_based) == slow(block, zero_based) == exactly(parse_block(block, zero_based))


@given(st.one_of(st.binary(max_size=30), st.text("1,2:-+.e_ #\n\r\0\x1cnaif\u0661", max_size=25).map(str.encode)), st.booleans())
@settings(max_examples=200)
def test_parsers_accept_only_what_the_oracle_accepts(block, zero_based):
    try:
        expected = exactly(parse_block(block, zero_based))
    except (ValueError, OverflowError):
        expected = None
    assert slow(block, zero_based) == expected
    assert fast(block, zero_based) in (None, expected)


UNUSUAL = ["1 +3:1", "1 00000000003:1", "1 3:12345678901234567890", "1 3:1e-400", "1 3:3.4028235e38", "1e-310 1:1"]
BAD = ["1 0:1", "1 3:1 2:1", "1 3:1 3:1", "1 -3:1", "1 1:nan", "inf", "1 1:1e39", "1 1", "1 1:", "1 1:2:3", "1 qid:7 1:1", "1,,2"]
BAD += ["1 1:2\0", "\0 # 1", "1 1:2,3", "1,1:2", "1 1:- 2:1", "1 1:e5", "1 1:.", "1 1:1e", "1 :1", "1 3:1_0", "1 12345678901:1"]
BAD += ["1 1:0x10", "1 1:\u0661"]


@pytest.mark.parametrize("line", UNUSUAL + BAD)
def test_fast_parser_passes_on_unusual_lines(line):
    block = f"1 1:1\n{line}\n".encode()
    try:
        expected = exactly(parse_block(block, False))
    except (ValueError, OverflowError):
        assert fast(block) is None
        rows = parse_lines(text_of(block), False, wrong := {})
        assert [*wrong] == [1] and exactly(rows) == exactly(parse_lines(text_of(b"1 1:1\n"), False, {}))
        return
    assert line in UNUSUAL
    assert fast(block) in (None, expected)
    assert exactly(parse_lines(text_of(block), False, {})) == slow(block) == expected


def test_the_last_index():
    assert fast(b"1 2147483647:1\n")[1] == [2**31 - 2]
    assert fast(b"1 2147483646:1\n", True)[1] == [2**31 - 2]
    assert fast(b"1 2147483648:1\n") is fast(b"1 2147483647:1\n", True) is None


CONTENT = b"\xef\xbb\xbf1 1:0.25 7:3\n\n# nothing\n2,1 2:1\n 4:1e-3 5:0\n"
CONTENT += b"".join(b"%d %d:%d\n" % (i % 3, i + 1, i) for i in range(40))


@pytest.mark.parametrize("kind", sorted(COMPRESS))
@pytest.mark.parametrize("ending", [b"", b"9 1:1"])
def test_blocks_of_any_size_give_the_same_rows(tmp_path, kind, ending):
    path = tmp_path / "rows"
    path.write_bytes(COMPRESS[kind](CONTENT + ending))
    expected = parse_block(CONTENT.removeprefix(b"\xef\xbb\xbf") + ending, False)
    for block_bytes in (1, 7, 1000):
        blocks = read(path, block_bytes=block_bytes)
        assert len(blocks) > 1 or block_bytes > 7
        assert joined(blocks) == tuple(column.tobytes() for column in expected[:-1])


@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"1 0:1", "index 0, but indices start at 1 (use --zero-based)"),
        (b"1 3:1 2:1", "index 2 after 3; sort the indices and remove duplicates"),
        (b"spam", "label 'spam', but expected numbers separated by commas"),
    ],
)
def test_names_bad_line(tmp_path, block_bytes, line, problem):
    path = tmp_path / "rows"
    path.write_bytes(CONTENT + b"\n" + line + b"\n1 1:2\nbad too\n")
    with pytest.raises(DataError) as caught:
        read(path, block_bytes=block_bytes)
    assert str(caught.value) == f"{path}: line {CONTENT.count(10) + 2}: {problem}"


@pytest.mark.parametrize("content", [b"", b"\n# nothing"])
def test_no_rows(tmp_path, content):
    (tmp_path / "rows").write_bytes(content)
    with pytest.raises(DataError, match=r"rows: no rows; expected `label index:value \.\.\.`"):
        read(tmp_path / "rows")


def test_rejects_other_files(tmp_path):
    with pytest.raises(DataError, match=r"No such file .* while reading .*nothing"):
        read(tmp_path / "nothing")
    with pytest.raises(DataError, match="directory"):
        read(tmp_path)
    (tmp_path / "rows").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(DataError, match="rows: an HDF5 file, but expected svmlight text"):
        read(tmp_path / "rows")


def test_lines_longer_than_a_block_and_too_long(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b"1 1:1\n" + b"2" + b"".join(b" %d:1" % i for i in range(1, 500)) + b"\n")
    assert [block.n_rows for block in read(path, block_bytes=10)] == [1, 1]
    for block_bytes in (10, 1 << 20):
        with pytest.raises(DataError, match="rows: line 2: longer than"):
            read(path, block_bytes=block_bytes, max_line=1000)
