"""Fast parsing of svmlight text, at a few nanoseconds per byte; unusual text is left to a slower, complete parser.

If the digits m of a number m · 10^e are at most 2⁵³ and |e| ≤ 22, m and 10^|e| are doubles, and one multiplication or division
gives the nearest double. Values of features, which are stored as float32, may have 19 digits and |e| ≤ 66: a few operations give a
double with a relative error below 2⁻⁵⁰, which nearly always rounds to the float32 of the exact number. The text must end with a
newline.
"""

import numpy as np

from hpcml.kernels import njit

TAB, NEWLINE, RETURN, BLANK = 9, 10, 13, 32
HASH, PLUS, COMMA, MINUS, POINT, COLON, SMALL_E = b"#+,-.:e"
_0, _9, _10, _ZERO = (np.uint64(n) for n in (0, 9, 10, 48))
MAX_DIGITS = 19  # always fit 64 bits
MAX_INDEX_DIGITS = 10
MAX_INTEGER = np.uint64(1 << 53)  # doubles represent all integers up to it
MAX_VALUE = float(np.finfo(np.float32).max)
TENS = np.array([float(10**power) for power in range(23)])  # powers of ten that are doubles
UNSURE = 2.0**-50  # largest relative error of an inexact number


@njit
def _digits(text, at, value, n):
    """(value followed by the digits at `at`, modulo 2⁶⁴; n and their number without leading zeros; position behind them)."""
    digit = np.uint64(text[np.uint64(at)]) - _ZERO
    while digit <= _9:
        value = value * _10 + digit
        n += n > 0 or digit != _0
        at += 1
        digit = np.uint64(text[np.uint64(at)]) - _ZERO
    return value, n, at


@njit
def _number(text, at, exact):
    """(the double at `at`, or unless `exact` one with its float32, position behind it); position −1 for other text."""
    negative = text[np.uint64(at)] == MINUS
    begin = at + (negative or text[np.uint64(at)] == PLUS)
    m, n, at = _digits(text, begin, _0, 0)
    e = 0
    if text[np.uint64(at)] == POINT:
        point = at + 1
        m, n, at = _digits(text, point, m, n)
        e = point - at
        begin += 1
    if at == begin or n > MAX_DIGITS:
        return 0.0, -1
    if text[np.uint64(at)] | 32 == SMALL_E:
        below_1 = text[np.uint64(at + 1)] == MINUS
        begin = at + 1 + (below_1 or text[np.uint64(at + 1)] == PLUS)
        power, _, at = _digits(text, begin, _0, 0)
        if not 1 <= at - begin <= 4:
            return 0.0, -1
        e += -np.int64(power) if below_1 else np.int64(power)
    if m <= MAX_INTEGER and -22 <= e <= 22:
        value = np.float64(m) / TENS[np.uint64(-e)] if e < 0 else np.float64(m) * TENS[np.uint64(e)]
    elif m == _0:
        value = 0.0
    elif exact or not -66 <= e <= 66:
        return 0.0, -1
    else:
        value = np.float64(m)
        for power in range(abs(e), 0, -22):
            tens = TENS[np.uint64(min(power, 22))]
            value = value / tens if e < 0 else value * tens
        if np.float32(value * (1.0 - UNSURE)) != np.float32(value * (1.0 + UNSURE)):
            return 0.0, -1
    return (-value if negative else value), at


@njit
def _blanks(text, at):
    """Position of the first byte from `at` that is not white space, or that ends the line."""
    byte = text[np.uint64(at)]
    while byte == BLANK or (TAB <= byte <= RETURN and byte != NEWLINE):
        at += 1
        byte = text[np.uint64(at)]
    return at


@njit
def _ends_token(byte):
    """Return whether a byte is white space or starts a comment."""
    return byte in (BLANK, HASH) or TAB <= byte <= RETURN


@njit
def _line_end(text, at):
    while text[np.uint64(at)] != NEWLINE:
        at += 1
    return at + 1


@njit
def _labels(text, at, labels, begin):
    """Write the labels at `at` to labels[begin:]: (number, position behind or −1 for other text, whether they may descend)."""
    end, descends = begin, False
    while True:
        value, at = _number(text, at, True)
        if at < 0:
            return 0, -1, False
        descends |= end > begin and labels[np.uint64(end - 1)] > value
        labels[np.uint64(end)] = value
        end += 1
        if text[np.uint64(at)] != COMMA:
            return end - begin, (at if _ends_token(text[np.uint64(at)]) else -1), descends
        at += 1


@njit
def _pairs(text, at, first, largest, indices, data, begin):
    """(end, last index, position behind): write the non-zero pairs to indices and data; position −1 for unusual text."""
    end, last = begin, first - 1
    at = _blanks(text, at)
    while text[np.uint64(at)] != NEWLINE and text[np.uint64(at)] != HASH:
        number, _, colon = _digits(text, at, _0, 0)
        index = np.int64(number)
        if text[np.uint64(colon)] != COLON or not 1 <= colon - at <= MAX_INDEX_DIGITS or not last < index <= largest:
            return end, last, -1
        value, at = _number(text, colon + 1, False)
        if at < 0 or not _ends_token(text[np.uint64(at)]) or abs(value) > MAX_VALUE:
            return end, last, -1
        last = index
        data[np.uint64(end)] = value
        indices[np.uint64(end)] = index - first
        end += data[np.uint64(end)] != 0
        at = _blanks(text, at)
    return end, last, at


@njit
def parse_lines(text, first, largest, lengths, indices, data, label_lengths, labels):
    """Parse svmlight lines: (rows, pairs, labels, width, whether labels may descend); rows is −1 for unusual text.

    Indices lie in first … largest and are written 0-based. indices and data need one element per colon and one more.
    """
    at, row, n_pairs, n_labels, width, any_descend = 0, 0, 0, 0, 0, False
    while at < text.size:
        at = _blanks(text, at)
        if text[np.uint64(at)] != NEWLINE and text[np.uint64(at)] != HASH:
            _, _, end = _digits(text, at, _0, 0)
            count = 0
            if text[np.uint64(end)] != COLON:
                count, at, descends = _labels(text, at, labels, n_labels)
                any_descend |= descends
            if at >= 0:
                end, last, at = _pairs(text, at, first, largest, indices, data, n_pairs)
            if at < 0:
                return -1, 0, 0, 0, False
            label_lengths[np.uint64(row)], lengths[np.uint64(row)] = count, end - n_pairs
            row, n_pairs, n_labels, width = row + 1, end, n_labels + count, max(width, last - first + 1)
        at = _line_end(text, at)
    return row, n_pairs, n_labels, width, any_descend
