"""Arrays in a message come out as they went in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st

from hpcml.mpi.neighbours import packed, unpacked

TYPES = st.sampled_from(["i4", "i8", "f4", "f8", "u1"])
ARRAYS = TYPES.flatmap(lambda kind: numpy_st.arrays(kind, st.integers(0, 9)))


@given(st.lists(ARRAYS, max_size=6))
def test_round_trip(arrays):
    message = packed(arrays)
    assert (message.dtype, message.ndim) == (np.uint8, 1)
    assert message.size == 8 + sum(16 + array.nbytes for array in arrays)
    got = unpacked(message)
    assert len(got) == len(arrays)
    for one, other in zip(arrays, got, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()  # NaN too


@given(st.lists(ARRAYS, min_size=1, max_size=3))
def test_what_comes_out_is_aligned_and_its_own(arrays):
    message = packed(arrays)
    got = unpacked(message)
    message[:] = 255
    for one, other in zip(arrays, got, strict=True):
        assert other.flags.aligned
        assert other.flags.writeable
        assert one.tobytes() == other.tobytes()


def test_arrays_with_gaps_and_of_other_types():
    assert unpacked(packed([np.arange(10)[::3]]))[0].tolist() == [0, 3, 6, 9]
    with pytest.raises(ValueError, match=r"is not in list|not in list"):
        packed([np.zeros(2, dtype=np.complex128)])
