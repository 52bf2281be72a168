"""Where the rows of CSV text end: at a newline that stands in no quotes.

A value is quoted if its first character is a quotation mark; `""` in it is one, and what follows
the closing one, up to the next delimiter, is taken as it is. Other quotation marks are letters.
"""

from hpcml.kernels import njit

BEGIN, PLAIN, QUOTED, CLOSED = range(4)  # before a value, in one, in one in quotes, behind a quotation mark in such a one
NEWLINE, RETURN = 10, 13


@njit
def next_end(text, begin, state, delimiter, quote, target):
    """(place, state, newlines): go on from text[begin] to the first row's end behind `target`.

    The place is behind the newline, or -1 of no end; `newlines` were passed; `quote` may be -1.
    """
    newlines = 0
    for i in range(begin, text.size):
        byte = text[i]
        if byte == NEWLINE:
            newlines += 1
        if state == QUOTED:
            if byte == quote:
                state = CLOSED
        elif byte == quote and state in (BEGIN, CLOSED):
            state = QUOTED
        elif byte == NEWLINE:
            state = BEGIN
            if i + 1 >= target:
                return i + 1, state, newlines
        elif byte in (delimiter, RETURN):
            state = BEGIN
        else:
            state = PLAIN
    return -1, state, newlines


@njit
def last_end(text, delimiter, quote):
    """(place, state): behind the newline of the last whole row of text, and at the text's end."""
    place, state, at = 0, BEGIN, 0
    while True:
        end, state, _ = next_end(text, at, BEGIN, delimiter, quote, 0)
        if end < 0:
            return place, state
        place = at = end
