"""Loops in which a vector register holds one number per label ("lane"), the only code with hand-written instructions.

numba has no vector types and cannot keep an array of sums in registers, so these loops are written in LLVM IR: per non-zero one
load of as many adjacent weights as there are lanes, and one fused multiply-add. On one core that takes 0.04 ns per non-zero and
label with 16 float32 lanes, against 0.3 ns for the same loop on arrays.

A kernel is a function that emits the instructions for one number of lanes; `by_width` turns it into a function for compiled code
whose last argument is one of `WIDTHS`:

    @by_width()
    def scale(lanes, values, at, factor):
        values.put(at, lanes.builder.fmul(values.lanes(at), lanes.splat(factor)))

    @njit
    def scale_rows(values, n, factor, width):
        for i in range(n):
            scale(values, i * width, factor, width)

Lanes are independent of each other. Maximum and minimum are comparisons with a select, because `maxnum` and `minnum` differ between
processors for zeros and NaN.
"""

WIDTHS = (1, 2, 4, 8, 16)  # lanes; 16 float32 or 8 float64 fill a cache line
LINE = 8  # float64 in a cache line
