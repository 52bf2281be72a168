"""Writing the instructions: `Lanes` has what LLVM's builder lacks, `Array` reads and writes,
`by_width` makes a kernel callable.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from hpcml.kernels.lanes import WIDTHS

SINGLE, DOUBLE = ir.FloatType(), ir.DoubleType()
I32, I64, POINTER = ir.IntType(32), ir.IntType(64), ir.PointerType()


class Lanes:
    """`count` lanes of numbers of type `element` (SINGLE, DOUBLE): what LLVM's builder lacks."""

    def __init__(self, builder: ir.IRBuilder, element: ir.Type, count: int) -> None:
        self.builder, self.element, self.count = builder, element, count
        self.vector, self.bits = ir.VectorType(element, count), ir.IntType(count)
        self.mask = ir.VectorType(ir.IntType(1), count)

    def of(self, element: ir.Type) -> Lanes:
        """As many lanes of another type."""
        return Lanes(self.builder, element, self.count)

    def constant(self, value: float) -> ir.Constant:
        """A number, in every lane."""
        return ir.Constant(self.vector, [value] * self.count)

    def scalar(self, value: ir.Value) -> ir.Value:
        """A float of any type as one of `element`."""
        if value.type == self.element:
            return value
        return (self.builder.fptrunc if value.type == DOUBLE else self.builder.fpext)(value, self.element)

    def splat(self, value: ir.Value) -> ir.Value:
        """A float, in every lane."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        single = self.builder.insert_element(undefined, self.scalar(value), I32(0))
        return self.builder.shuffle_vector(single, undefined, ir.Constant(ir.VectorType(I32, self.count), [0] * self.count))

    def widened(self, vector: ir.Value) -> ir.Value:
        """Lanes of any type as lanes of `element`."""
        if vector.type.element == self.element:
            return vector
        return (self.builder.fptrunc if vector.type.element == DOUBLE else self.builder.fpext)(vector, self.vector)

    def call(self, name: str, *given: ir.Value) -> ir.Value:
        """One of LLVM's functions whose bits are the same on every processor: fma, fabs,
        copysign.
        """
        kind = ir.FunctionType(self.vector, [self.vector] * len(given))
        name = f"llvm.{name}.v{self.count}{'f32' if self.element == SINGLE else 'f64'}"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), given)

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x y + z, rounded once."""
        return self.call("fma", x, y, z)

    def larger(self, kept: ir.Value, other: ir.Value) -> ir.Value:
        """`other` where it is larger; else, and where it is not a number, `kept`."""
        return self.builder.select(self.builder.fcmp_ordered(">", other, kept), other, kept)

    def smaller(self, kept: ir.Value, other: ir.Value) -> ir.Value:
        """`other` where it is smaller; else, and where it is not a number, `kept`."""
        return self.builder.select(self.builder.fcmp_ordered("<", other, kept), other, kept)

    def flags(self, number: ir.Value) -> ir.Value:
        """The lowest bits of a whole number, lane by lane."""
        return self.builder.bitcast(self.builder.trunc(number, self.bits), self.mask)

    def number(self, flags: ir.Value) -> ir.Value:
        """Flags as the bits of a whole number (64 bits)."""
        return self.builder.zext(self.builder.bitcast(flags, self.bits), I64)

    def any(self, flags: ir.Value) -> ir.Value:
        """Whether a flag is set in some lane."""
        return self.builder.icmp_unsigned("!=", self.builder.bitcast(flags, self.bits), ir.Constant(self.bits, 0))

    def signed(self, is_positive: ir.Value, value: ir.Value) -> ir.Value:
        """`value` in lanes that are positive, −`value` in the others."""
        return self.builder.select(is_positive, value, self.builder.fneg(value))

    def rows(self, begin: ir.Value, end: ir.Value, step: int = 1) -> Any:
        """A loop: with `lanes.rows(begin, end) as (k, _)`."""
        return cgutils.for_range_slice(self.builder, begin, end, I64(step), I64)

    def variable(self, value: ir.Value) -> ir.Value:
        """Where a value can be loaded and stored: LLVM keeps it in a register."""
        place = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, place)
        return place


class Array:
    """An array that compiled code passes, contiguous along its last dimension; places in it are
    not checked.
    """

    def __init__(self, lanes: Lanes, context: Any, kind: types.Array, value: ir.Value) -> None:
        self.builder, self.count, self.element = lanes.builder, lanes.count, context.get_data_type(kind.dtype)
        array = context.make_array(kind)(context, lanes.builder, value)
        # numba's pointers have types, and llvmlite takes a cast of one to a pointer without for no cast
        self.pointer = lanes.builder.load(cgutils.alloca_once_value(lanes.builder, array.data), typ=POINTER)
        self.strides = cgutils.unpack_tuple(lanes.builder, array.strides, kind.ndim)  # bytes
        if kind.layout == "C":
            self.strides[-1] = I64(context.get_abi_sizeof(self.element))  # known: no multiplication for each element

    def at(self, place: ir.Value) -> ir.Value:
        """A pointer to the element at a place, of contiguous ones."""
        return self.builder.gep(self.pointer, [place], source_etype=self.element)

    def one(self, place: ir.Value) -> ir.Value:
        """The element at a place of a 1-d array with any stride."""
        byte = self.builder.mul(place, self.strides[0])
        return self.builder.load(self.builder.gep(self.pointer, [byte], source_etype=ir.IntType(8)), typ=self.element)

    def index(self, place: ir.Value) -> ir.Value:
        """The same of whole numbers, as 64 bits."""
        found = self.one(place)
        return self.builder.sext(found, I64) if self.element.width < 64 else found

    def line(self, row: ir.Value) -> Array:
        """A row of a 2-d array."""
        found = object.__new__(Array)
        found.builder, found.count, found.element, found.strides = self.builder, self.count, self.element, self.strides[1:]
        byte = self.builder.mul(row, self.strides[0])
        found.pointer = self.builder.gep(self.pointer, [byte], source_etype=ir.IntType(8))
        return found

    @property
    def _align(self) -> int:
        return 4 if self.element == SINGLE else 8

    def lanes(self, place: ir.Value) -> ir.Value:
        """As many elements as there are lanes, from a place on."""
        return self.builder.load(self.at(place), align=self._align, typ=ir.VectorType(self.element, self.count))

    def put(self, place: ir.Value, vector: ir.Value) -> None:
        """Write as many elements as there are lanes, from a place on."""
        self.builder.store(vector, self.at(place), align=self._align)

    def ask(self, place: ir.Value, near: int) -> None:
        """Ask for the cache line of a place without waiting; `near` is LLVM's locality, 3 for
        the first-level cache.
        """
        kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
        prefetch = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        self.builder.call(prefetch, [self.at(place), I32(0), I32(near), I32(1)])


def by_width(result: types.Type = types.void, widths: tuple[int, ...] = WIDTHS, of: int = -1) -> Callable[..., Any]:
    """Make of `emit(lanes, *arguments)` a function for compiled code whose last argument is the
    number of lanes, one of `widths`.

    Arrays come to `emit` as `Array`, whole numbers as 64 bits, floats as float64, tuples as tuples
    of these. `lanes` are of the type of argument number `of` (−1: DOUBLE). A number of lanes that
    is known when it is compiled costs nothing; one that is not, a jump.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        def typed(typing: object, *given: types.Type) -> tuple[Any, Any]:
            *kinds, lanes = given
            known = isinstance(lanes, types.IntegerLiteral)
            signature = result(*(_passed(kind) for kind in kinds), lanes if known else types.int64)

            def write(context: Any, builder: ir.IRBuilder, signature: Any, values: list[ir.Value]) -> ir.Value:
                def body(count: int) -> ir.Value | None:
                    doubles = Lanes(builder, DOUBLE, count)
                    given = zip(signature.args[:-1], values[:-1], strict=True)
                    passed = [_received(doubles, context, kind, value) for kind, value in given]
                    return emit(doubles if of < 0 else doubles.of(passed[of].element), *passed)

                kind = None if result == types.void else context.get_value_type(result)
                found = body(lanes.literal_value) if known else _chosen(builder, values[-1], widths, body, kind)
                return context.get_dummy_value() if kind is None else found

            return signature, write

        functools.update_wrapper(typed, emit, updated=())
        names = ["typing", *list(inspect.signature(emit).parameters)[1:], "n_lanes"]
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return intrinsic(prefer_literal=True)(typed)

    return decorate


def _passed(kind: types.Type) -> types.Type:
    """As what an argument is passed on."""
    if isinstance(kind, types.BaseTuple):
        return types.Tuple([_passed(each) for each in kind])
    return kind if isinstance(kind, types.Array) else types.int64 if isinstance(kind, types.Integer) else types.float64


def _received(lanes: Lanes, context: Any, kind: types.Type, value: ir.Value) -> Any:
    """An argument as `emit` takes it."""
    if isinstance(kind, types.BaseTuple):
        parts = zip(kind, cgutils.unpack_tuple(lanes.builder, value, len(kind)), strict=True)
        return tuple(_received(lanes, context, *part) for part in parts)
    return Array(lanes, context, kind, value) if isinstance(kind, types.Array) else value


def _chosen(
    builder: ir.IRBuilder, lanes: ir.Value, widths: tuple[int, ...], body: Callable[[int], Any], kind: ir.Type | None
) -> ir.Value | None:
    """The instructions for each of the widths, and a jump to those of so many lanes; for any
    other number to the first ones.
    """
    blocks = {count: builder.append_basic_block(f"lanes{count}") for count in widths}
    end, found = builder.append_basic_block("end"), None if kind is None else cgutils.alloca_once(builder, kind)
    choice = builder.switch(lanes, blocks[widths[0]])
    for count, block in blocks.items():
        choice.add_case(I64(count), block)
        builder.position_at_end(block)
        value = body(count)
        if found is not None:
            builder.store(value, found)
        builder.branch(end)
    builder.position_at_end(end)
    return None if found is None else builder.load(found)
