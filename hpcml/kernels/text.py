"""Fast parsing of svmlight text, at a few nanoseconds per byte; unusual text is left to a slower, complete parser.

If the digits m of a number m · 10^e are at most 2⁵³ and |e| ≤ 22, m and 10^|e| are doubles, and one multiplication or division
gives the nearest double. Values of features, which are stored as float32, may have 19 digits and |e| ≤ 44: a few operations give a
double with a relative error below 2⁻⁵⁰, which nearly always rounds to the float32 of the exact number. The text must end with a
newline; nothing is read behind it.
"""

import numpy as np

from hpcml.kernels import njit

TAB, NEWLINE, RETURN, BLANK = 9, 10, 13, 32
HASH, PLUS, COMMA, MINUS, POINT, COLON, SMALL_E = b"#+,-.:e"
_0, _7, _8, _9, _10, _16, _32 = (np.uint64(n) for n in (0, 7, 8, 9, 10, 16, 32))
_ZERO = np.uint64(48)
_ZEROS, _SIXES, _TOPS = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0x76, 0x80))
_ORDER, _EVEN = np.uint64(0x0001020304050607), np.uint64(0x000000FF000000FF)
_MILLION_HUNDRED, _TEN_THOUSAND_ONE = np.uint64((1000000 << 32) + 100), np.uint64((10000 << 32) + 1)
_TENS = 10 ** np.arange(9, dtype=np.uint64)
MAX_DIGITS = 19  # always fit 64 bits
MAX_INDEX_DIGITS = 10
MAX_INTEGER = np.uint64(1 << 53)  # doubles represent all integers up to it
MAX_VALUE = float(np.finfo(np.float32).max)
TENS = np.array([float(10**power) for power in range(23)])  # powers of ten that are doubles
FEW_LABELS = 64  # are sorted by insertion
UNSURE = 2.0**-50  # largest relative error of an inexact number


@njit
def _eight(text, at):
    """Eight bytes from `at` as a number, first byte lowest; compiled to one load."""
    at, word = np.uint64(at), _0
    for k in range(8):
        word |= np.uint64(text[at + np.uint64(k)]) << np.uint64(8 * k)
    return word


@njit
def _value_of(digits):
    """The number of eight digits, one per byte, first digit lowest: pairs, then fours, are joined."""
    digits = digits * _10 + (digits >> _8)
    return ((digits & _EVEN) * _MILLION_HUNDRED + ((digits >> _16) & _EVEN) * _TEN_THOUSAND_ONE) >> _32


@njit
def _digits(text, at, value):
    """(value followed by the digits at `at`, position behind them), modulo 2⁶⁴."""
    while True:
        digits = _eight(text, at) ^ _ZEROS
        others = ((digits + _SIXES) | digits) & _TOPS  # its lowest bit is in the first byte that is not a digit
        if others != _0:
            n = ((others & (_0 - others)) >> _7) * _ORDER >> np.uint64(56)
            leading = digits << (np.uint64(56) - _8 * n) << _8  # a new name: numba 0.68 miscompiles the loop with the old one
            return value * _TENS[n] + _value_of(leading), at + np.int64(n)
        value = value * _TENS[_8] + _value_of(digits)
        at += 8


@njit
def _exponent(text, at):
    """(exponent, position behind) of the text after an `e`; position −1 if it is missing or too long."""
    negative = text[np.uint64(at)] == MINUS
    if negative or text[np.uint64(at)] == PLUS:
        at += 1
    value, end = _digits(text, at, _0)
    if not 1 <= end - at <= 4:
        return 0, -1
    return (-np.int64(value) if negative else np.int64(value)), end


@njit
def _significant(text, begin, n_digits):
    """Number of digits from `begin`, after leading zeros; a point may be among them."""
    while n_digits > 0 and (text[np.uint64(begin)] == _ZERO or text[np.uint64(begin)] == POINT):
        n_digits -= text[np.uint64(begin)] == _ZERO
        begin += 1
    return n_digits


@njit
def _any_number(text, at, exact):
    """(the double at `at`, or unless `exact` one with its float32, position behind it); position −1 for other text."""
    negative = text[np.uint64(at)] == MINUS
    if negative or text[np.uint64(at)] == PLUS:
        at += 1
    begin, e = at, 0
    m, at = _digits(text, at, _0)
    n_digits = at - begin
    if text[np.uint64(at)] == POINT:
        point = at + 1
        m, at = _digits(text, point, m)
        e = point - at
        n_digits -= e
    if n_digits == 0 or (n_digits > MAX_DIGITS and _significant(text, begin, n_digits) > MAX_DIGITS):
        return 0.0, -1
    if text[np.uint64(at)] | 32 == SMALL_E:
        more, at = _exponent(text, at + 1)
        e += more
    if m <= MAX_INTEGER and -22 <= e <= 22:
        value = np.float64(m) / TENS[np.uint64(-e)] if e < 0 else np.float64(m) * TENS[np.uint64(e)]
    elif m == _0:
        value = 0.0
    elif exact or not -44 <= e <= 44:
        return 0.0, -1
    else:
        first, second = TENS[np.uint64(abs(e) >> 1)], TENS[np.uint64(abs(e) - (abs(e) >> 1))]
        value = np.float64(m) / first / second if e < 0 else np.float64(m) * first * second
        if np.float32(value * (1.0 - UNSURE)) != np.float32(value * (1.0 + UNSURE)):
            return 0.0, -1
    return (-value if negative else value), at


@njit(inline="always")
def _number(text, begin, exact):
    """`_any_number`, faster for few digits without exponent; inlined because calls are as expensive."""
    negative = text[np.uint64(begin)] == MINUS
    start = begin + negative
    m, at = np.uint64(text[np.uint64(start)]) - _ZERO, start + 1
    if m > _9 or np.uint64(text[np.uint64(at)]) - _ZERO <= _9:  # unless one digit precedes the point, as in 1 and 0.5
        m, at = _digits(text, start, _0)
    n_digits, n_behind = at - start, 0
    if text[np.uint64(at)] == POINT:
        m, end = _digits(text, at + 1, m)
        n_behind = end - at - 1
        n_digits, at = n_digits + n_behind, end
    if not 0 < n_digits <= MAX_DIGITS or m > MAX_INTEGER or text[np.uint64(at)] | 32 == SMALL_E:
        return _any_number(text, begin, exact)
    value = np.float64(m) / TENS[np.uint64(n_behind)]
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
        position = end
        if end - begin >= FEW_LABELS and labels[np.uint64(end - 1)] > value:
            descends = True
        while end - begin < FEW_LABELS and position > begin and labels[np.uint64(position - 1)] > value:
            labels[np.uint64(position)] = labels[np.uint64(position - 1)]
            position -= 1
        labels[np.uint64(position)] = value
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
        number, colon = _digits(text, at, _0)
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
def parse_lines(text, size, first, largest, lengths, indices, data, label_lengths, labels):
    """Parse svmlight lines: (rows, pairs, labels, width, whether labels may descend); rows is −1 for unusual text.

    Indices lie in first … largest and are written 0-based. indices and data need one element per colon and one more.
    """
    at, row, n_pairs, n_labels, width, any_descend = 0, 0, 0, 0, 0, False
    while at < size:
        at = _blanks(text, at)
        if text[np.uint64(at)] != NEWLINE and text[np.uint64(at)] != HASH:
            _, end = _digits(text, at, _0)
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
