"""`predict` of svmlight text as a function."""

from pathlib import Path

from hpcml.files.lines import LINE_MIB
from hpcml.prediction.records import SvmlightRows, predict_stream


def predict_text(comm, model, source, output, force, log, top=None, zero_based=False, text_format=None, max_line=LINE_MIB << 20):
    inputs = [model.path, *([] if str(source) == "-" else [Path(source)])]

    def open_rows(block_bytes):
        return SvmlightRows(comm, source, model, zero_based, max_line, block_bytes)

    predict_stream(comm, model, open_rows, inputs, output, force, log, top, text_format)
