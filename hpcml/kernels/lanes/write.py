"""Emission of instructions: `Lanes` extends LLVM's builder, `Array` loads and stores, `by_width` makes a kernel callable."""

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
    """`count` lanes of numbers of type `element` (SINGLE or DOUBLE)."""

    def __init__(self, builder: ir.IRBuilder, element: ir.Type, count: int) -> None:
        self.builder, self.element, self.count = builder, element, count
        self.vector, self.bits = ir.VectorType(element, count), ir.IntType(count)
        self.mask = ir.VectorType(ir.IntType(1), count)

    def of(self, element: ir.Type) -> Lanes:
        return Lanes(self.builder, element, self.count)

    def constant(self, value: float) -> ir.Constant:
        return ir.Constant(self.vector, [value] * self.count)

    def scalar(self, value: ir.Value) -> ir.Value:
        if value.type == self.element:
            return value
        return (self.builder.fptrunc if value.type == DOUBLE else self.builder.fpext)(value, self.element)

    def splat(self, value: ir.Value) -> ir.Value:
        undefined = ir.Constant(self.vector, ir.Undefined)
        single = self.builder.insert_element(undefined, self.scalar(value), I32(0))
        return self.builder.shuffle_vector(single, undefined, ir.Constant(ir.VectorType(I32, self.count), [0] * self.count))

    def widened(self, vector: ir.Value) -> ir.Value:
        if vector.type.element == self.element:
            return vector
        return (self.builder.fptrunc if vector.type.element == DOUBLE else self.builder.fpext)(vector, self.vector)

    def call(self, name: str, *arguments: ir.Value) -> ir.Value:
        """Call an LLVM function whose bits are the same on every processor: fma, fabs, copysign."""
        kind = ir.FunctionType(self.vector, [self.vector] * len(arguments))
        name = f"llvm.{name}.v{self.count}{'f32' if self.element == SINGLE else 'f64'}"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), arguments)

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        return self.call("fma", x, y, z)

    def larger(self, current: ir.Value, other: ir.Value) -> ir.Value:
        """`other` where it is larger, otherwise (also if it is NaN) `current`."""
        return self.builder.select(self.builder.fcmp_ordered(">", other, current), other, current)

    def smaller(self, current: ir.Value, other: ir.Value) -> ir.Value:
        """`other` where it is smaller, otherwise (also if it is NaN) `current`."""
        return self.builder.select(self.builder.fcmp_ordered("<", other, current), other, current)

    def flags(self, number: ir.Value) -> ir.Value:
        """Convert the lowest bits of an integer to a mask."""
        return self.builder.bitcast(self.builder.trunc(number, self.bits), self.mask)

    def number(self, flags: ir.Value) -> ir.Value:
        """Convert a mask to the bits of a 64-bit integer."""
        return self.builder.zext(self.builder.bitcast(flags, self.bits), I64)

    def any(self, flags: ir.Value) -> ir.Value:
        return self.builder.icmp_unsigned("!=", self.builder.bitcast(flags, self.bits), ir.Constant(self.bits, 0))

    def signed(self, is_positive: ir.Value, value: ir.Value) -> ir.Value:
        return self.builder.select(is_positive, value, self.builder.fneg(value))

    def rows(self, begin: ir.Value, end: ir.Value, step: int = 1) -> Any:
        """A loop: `with lanes.rows(begin, end) as (k, _)`."""
        return cgutils.for_range_slice(self.builder, begin, end, I64(step), I64)

    def variable(self, value: ir.Value) -> ir.Value:
        """Allocate a mutable value, which LLVM keeps in a register."""
        position = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, position)
        return position


class Array:
    """An array argument of compiled code, contiguous in its last dimension; accesses are unchecked."""

    def __init__(self, lanes: Lanes, context: Any, kind: types.Array, value: ir.Value) -> None:
        self.builder, self.count, self.element = lanes.builder, lanes.count, context.get_data_type(kind.dtype)
        array = context.make_array(kind)(context, lanes.builder, value)
        # numba's pointers are typed, and llvmlite treats a cast to an untyped pointer as no cast
        self.pointer = lanes.builder.load(cgutils.alloca_once_value(lanes.builder, array.data), typ=POINTER)
        self.strides = cgutils.unpack_tuple(lanes.builder, array.strides, kind.ndim)  # bytes
        if kind.layout == "C":
            self.strides[-1] = I64(context.get_abi_sizeof(self.element))  # constant: no multiplication per element

    def at(self, position: ir.Value) -> ir.Value:
        return self.builder.gep(self.pointer, [position], source_etype=self.element)

    def one(self, position: ir.Value) -> ir.Value:
        """Load an element of a 1-d array with any stride."""
        byte = self.builder.mul(position, self.strides[0])
        return self.builder.load(self.builder.gep(self.pointer, [byte], source_etype=ir.IntType(8)), typ=self.element)

    def index(self, position: ir.Value) -> ir.Value:
        """`one` for integers, as 64 bits."""
        value = self.one(position)
        return self.builder.sext(value, I64) if self.element.width < 64 else value

    def line(self, row: ir.Value) -> Array:
        line = object.__new__(Array)
        line.builder, line.count, line.element, line.strides = self.builder, self.count, self.element, self.strides[1:]
        byte = self.builder.mul(row, self.strides[0])
        line.pointer = self.builder.gep(self.pointer, [byte], source_etype=ir.IntType(8))
        return line

    @property
    def _align(self) -> int:
        return 4 if self.element == SINGLE else 8

    def lanes(self, position: ir.Value) -> ir.Value:
        return self.builder.load(self.at(position), align=self._align, typ=ir.VectorType(self.element, self.count))

    def put(self, position: ir.Value, vector: ir.Value) -> None:
        self.builder.store(vector, self.at(position), align=self._align)

    def prefetch(self, position: ir.Value, near: int) -> None:
        """Prefetch the cache line of a position; `near` is LLVM's locality, 3 for the L1 cache."""
        kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
        prefetch = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        self.builder.call(prefetch, [self.at(position), I32(0), I32(near), I32(1)])


def by_width(result: types.Type = types.void, widths: tuple[int, ...] = WIDTHS, of: int = -1) -> Callable[..., Any]:
    """Make of `emit(lanes, *arguments)` a function for compiled code whose last argument is the number of lanes, one of `widths`.

    `emit` gets arrays as `Array`, integers as 64 bits, floats as float64, and tuples of these; `lanes` have the type of argument
    `of`.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        def typed(typing: object, *arguments: types.Type) -> tuple[Any, Any]:
            *kinds, lanes = arguments
            known = isinstance(lanes, types.IntegerLiteral)
            signature = result(*(_passed(kind) for kind in kinds), lanes if known else types.int64)

            def write(context: Any, builder: ir.IRBuilder, signature: Any, values: list[ir.Value]) -> ir.Value:
                def body(count: int) -> ir.Value | None:
                    doubles = Lanes(builder, DOUBLE, count)
                    arguments = zip(signature.args[:-1], values[:-1], strict=True)
                    passed = [_received(doubles, context, kind, value) for kind, value in arguments]
                    return emit(doubles if of < 0 else doubles.of(passed[of].element), *passed)

                kind = None if result == types.void else context.get_value_type(result)
                result_value = body(lanes.literal_value) if known else _chosen(builder, values[-1], widths, body, kind)
                return context.get_dummy_value() if kind is None else result_value

            return signature, write

        functools.update_wrapper(typed, emit, updated=())
        names = ["typing", *list(inspect.signature(emit).parameters)[1:], "n_lanes"]
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return intrinsic(prefer_literal=True)(typed)

    return decorate


def _passed(kind: types.Type) -> types.Type:
    if isinstance(kind, types.BaseTuple):
        return types.Tuple([_passed(each) for each in kind])
    return kind if isinstance(kind, types.Array) else types.int64 if isinstance(kind, types.Integer) else types.float64


def _received(lanes: Lanes, context: Any, kind: types.Type, value: ir.Value) -> Any:
    if isinstance(kind, types.BaseTuple):
        parts = zip(kind, cgutils.unpack_tuple(lanes.builder, value, len(kind)), strict=True)
        return tuple(_received(lanes, context, *part) for part in parts)
    return Array(lanes, context, kind, value) if isinstance(kind, types.Array) else value


def _chosen(
    builder: ir.IRBuilder, lanes: ir.Value, widths: tuple[int, ...], body: Callable[[int], Any], kind: ir.Type | None
) -> ir.Value | None:
    """Emit the instructions for each width and a jump by the number of lanes; other numbers jump to the first width."""
    blocks = {count: builder.append_basic_block(f"lanes{count}") for count in widths}
    end, result = builder.append_basic_block("end"), None if kind is None else cgutils.alloca_once(builder, kind)
    choice = builder.switch(lanes, blocks[widths[0]])
    for count, block in blocks.items():
        choice.add_case(I64(count), block)
        builder.position_at_end(block)
        value = body(count)
        if result is not None:
            builder.store(value, result)
        builder.branch(end)
    builder.position_at_end(end)
    return None if result is None else builder.load(result)
