"""Fast parsing of svmlight text, at a few nanoseconds per byte; unusual text is left to a slower, complete parser.

A number m · 10^e (m < 10¹⁹, its digits) is rounded to the nearest double in one of two ways. If m ≤ 2⁵³ and |e| ≤ 22, m and 10^|e|
are doubles, and one multiplication or division rounds once. Otherwise the 128-bit product of m and a rounded power of five is used
(D. Lemire, Number parsing at a gigabyte per second, 2021, algorithm 1), which is exact enough for every m below 2⁶⁴. The text must
end with a newline; nothing is read behind it.
"""

import numpy as np

from hpcml.kernels import njit

TAB, NEWLINE, RETURN, BLANK = 9, 10, 13, 32
HASH, PLUS, COMMA, MINUS, POINT, COLON, SMALL_E = b"#+,-.:e"
_0, _1, _7, _8, _9, _10, _16, _32, _63, _64 = (np.uint64(n) for n in (0, 1, 7, 8, 9, 10, 16, 32, 63, 64))
_ZERO, _LOW = np.uint64(48), np.uint64(2**32 - 1)
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
FIRST_POWER, LAST_POWER = -307, 288  # exponents whose product with any 19 digits is a normal double


def _power_of_five(q: int) -> int:
    """Return the 128 leading bits of 5^q, rounded down; rounded up for −27 ≤ q < 0, where 5^−q fits 64 bits."""
    power = 5 ** abs(q)
    if q < 0:
        power = (1 << (power.bit_length() + 127)) // power + (q >= -27)
    return (power << 128) >> power.bit_length()


_POWERS = [_power_of_five(q) for q in range(FIRST_POWER, LAST_POWER + 1)]
FIVES_HIGH = np.array([power >> 64 for power in _POWERS], dtype=np.uint64)
FIVES_LOW = np.array([power & (2**64 - 1) for power in _POWERS], dtype=np.uint64)


@njit
def _product(a, b):
    a1, a0, b1, b0 = a >> _32, a & _LOW, b >> _32, b & _LOW
    middle = a1 * b0 + (a0 * b0 >> _32)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _32) + (other >> _32), a * b


@njit
def _nearest(m, e, bits):
    """The double nearest to m · 10^e, for m ≥ 1 and e in the table; bits[0] (uint64) is scratch."""
    shift = _0
    for power in range(5, -1, -1):
        step = _1 << np.uint64(power)
        if m >> (_64 - step) == _0:
            m <<= step
            shift += step
    index = np.uint64(e - FIRST_POWER)
    high, low = _product(m, FIVES_HIGH[index])
    if high & np.uint64(511) == np.uint64(511):  # the lower half of the power might carry
        more, _ = _product(m, FIVES_LOW[index])
        low += more
        if low < more:
            high += _1
    top = high >> _63
    fraction = high >> (top + np.uint64(9))  # 54 bits: one more than a double has
    exponent = np.uint64(((217706 * e) >> 16) + 63 + 1023) + top - shift
    exact = low <= _1 and -4 <= e <= 23 and fraction << (top + np.uint64(9)) == high
    if exact and fraction & np.uint64(3) == _1:  # half-way: to even
        fraction -= _1
    fraction = (fraction + (fraction & _1)) >> _1
    if fraction >> np.uint64(53) != _0:
        fraction >>= _1
        exponent += _1
    bits[0] = (exponent << np.uint64(52)) | (fraction & np.uint64((1 << 52) - 1))
    return bits.view(np.float64)[0]


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
def _any_number(text, at, bits):
    """(the double at `at`, position behind it); position −1 for anything but a plain number."""
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
    elif FIRST_POWER <= e <= LAST_POWER:
        value = _nearest(m, e, bits)
    else:
        return 0.0, -1
    return (-value if negative else value), at


@njit(inline="always")
def _number(text, begin, bits):
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
    if not 0 < n_digits <= MAX_DIGITS or text[np.uint64(at)] | 32 == SMALL_E:
        return _any_number(text, begin, bits)
    value = np.float64(m) / TENS[np.uint64(n_behind)] if m <= MAX_INTEGER else _nearest(m, -n_behind, bits)
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
def _labels(text, at, labels, begin, bits):
    """(number of labels, position behind): write the labels at `at` to labels[begin:]; position −1 if there are none."""
    end = begin
    while True:
        value, at = _number(text, at, bits)
        if at < 0:
            return 0, -1
        position = end
        if end - begin >= FEW_LABELS and labels[np.uint64(end - 1)] > value:
            bits[1] = _1
        while end - begin < FEW_LABELS and position > begin and labels[np.uint64(position - 1)] > value:
            labels[np.uint64(position)] = labels[np.uint64(position - 1)]
            position -= 1
        labels[np.uint64(position)] = value
        end += 1
        if text[np.uint64(at)] != COMMA:
            return end - begin, (at if _ends_token(text[np.uint64(at)]) else -1)
        at += 1


@njit
def _pairs(text, at, first, largest, indices, data, begin, bits):
    """(end, last index, position behind): write the non-zero pairs to indices and data; position −1 for unusual text."""
    end, last = begin, first - 1
    at = _blanks(text, at)
    while text[np.uint64(at)] != NEWLINE and text[np.uint64(at)] != HASH:
        number, colon = _digits(text, at, _0)
        index = np.int64(number)
        if text[np.uint64(colon)] != COLON or not 1 <= colon - at <= MAX_INDEX_DIGITS or not last < index <= largest:
            return end, last, -1
        value, at = _number(text, colon + 1, bits)
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
    bits = np.zeros(2, dtype=np.uint64)
    at, row, n_pairs, n_labels, width = 0, 0, 0, 0, 0
    while at < size:
        at = _blanks(text, at)
        if text[np.uint64(at)] != NEWLINE and text[np.uint64(at)] != HASH:
            _, end = _digits(text, at, _0)
            count = 0
            if text[np.uint64(end)] != COLON:
                count, at = _labels(text, at, labels, n_labels, bits)
            if at >= 0:
                end, last, at = _pairs(text, at, first, largest, indices, data, n_pairs, bits)
            if at < 0:
                return -1, 0, 0, 0, False
            label_lengths[np.uint64(row)], lengths[np.uint64(row)] = count, end - n_pairs
            row, n_pairs, n_labels, width = row + 1, end, n_labels + count, max(width, last - first + 1)
        at = _line_end(text, at)
    return row, n_pairs, n_labels, width, bits[1] != _0
