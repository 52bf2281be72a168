"""LLVM modules of kernels, and their machine instructions for several processors."""

import re
import sys
from collections import Counter

import llvmlite.binding as llvm
from numba.core.dispatcher import Dispatcher

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()

# By name: LLVM's triple, the processor, and the bits of the registers in which its vectors lie.
PROCESSORS = {
    "ARM": ("aarch64-unknown-linux-gnu", "generic", 128),
    "ARM with SVE": ("aarch64-unknown-linux-gnu", "neoverse-v1", 128),
    "x86": ("x86_64-unknown-linux-gnu", "haswell", 256),
}
# ARM: fmadd, fmsub, fnmadd, fnmsub; of vectors fmla, fmls; SVE's fmad, fmsb, fnmla, … x86: vfmadd213pd, vfnmsub231ss, vfmaddsub…
FUSED = re.compile(r"^\s+(v?fn?m(?:add|sub|ad|sb|la|ls)\w*)\s", re.MULTILINE)
EXPLICIT = re.compile(r"call [^@\n]*@llvm\.fma\.(?:v(\d+))?f(32|64)\(")
FLAG = "fast|nnan|ninf|nsz|arcp|contract|afn|reassoc"
FLAGS = re.compile(rf"= (?:(?:tail|musttail|notail) )?(?:f\w+|select|phi|call)((?: (?:{FLAG}))+) ")
CALLED = re.compile(r"(?:call|invoke) [^@\n]*@\"?([\w.$]+)\"?\(")
# LLVM's functions of floats with the same bits everywhere: IEEE 754 says them, or they choose and copy
EXACT = ("fma", "fabs", "copysign", "sqrt", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "masked", "vector.reduce.f")
EXACT_OF_C = {"sqrt", "sqrtf", "fma", "fmaf"}
MULTIPLIES = re.compile(r"= fmul |@llvm\.fma\.|@llvm\.fmuladd\.")
OF_FLOATS = re.compile(r"llvm\.([\w.]+?)\.(?:v\d+)?f(?:32|64)\b")
# x86's own counting of references, which other processors do not have; its flag decides what is freed, no number
COUNTED = re.compile(r"(?:tail )?call i8 @llvm\.x86\.atomic\.\w+\.cc\.i64\(.*\)[^\n]*")
OF_THIS_PROCESSOR = re.compile(r'^target (?:triple|datalayout) .*$|"target-(?:cpu|features)"="[^"]*"', re.MULTILINE)


def compiled(*kernels):
    """The LLVM modules, as text, of all forms of these kernels (none: of hpcml's kernels, by their Python names) that this process
    has compiled, or taken from those that are kept: by name and types. Each has the functions that it calls.
    """
    if not kernels:
        modules = [module for name, module in list(sys.modules.items()) if name.startswith("hpcml")]
        values = {id(value): value for module in modules for value in vars(module).values()}
        kernels = [value for value in values.values() if isinstance(value, Dispatcher)]
    found = {}
    for kernel in kernels:
        for types, form in kernel.overloads.items():
            found[f"{kernel.__module__}.{kernel.__name__}{types}"] = str(form.library._get_module_for_linking())
    return found


def flags(module):
    """By what an instruction is allowed more than IEEE 754 says, and how often: {} if nothing is."""
    return Counter(found.strip() for found in FLAGS.findall(module))


def library_functions(module):
    """The functions that are called and not known to have the same bits everywhere: of C by name, of LLVM as `llvm.exp`."""
    found = set()
    for name in CALLED.findall(module):
        if of_floats := OF_FLOATS.match(name):
            if not of_floats[1].startswith(EXACT):
                found.add(f"llvm.{of_floats[1]}")
        elif not name.startswith(("llvm.", "_ZN", "NRT_", "numba_", "Py", "cfunc.")) and name not in EXACT_OF_C:
            found.add(name)
    return found


def assembly(module, processor):
    """The instructions that LLVM writes of a module for a processor of PROCESSORS, at the level of optimisation of numba's, but for
    functions without multiplications of floats.
    """
    triple, name, _ = PROCESSORS[processor]
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=name, opt=3)
    parsed = llvm.parse_assembly(OF_THIS_PROCESSOR.sub("", COUNTED.sub("add i8 0, 0", module)))
    parsed.triple, parsed.data_layout = triple, str(machine.target_data)
    for function in parsed.functions:
        if not (function.is_declaration or MULTIPLIES.search(str(function))):
            function.linkage = "available_externally"
    return machine.emit_assembly(parsed)


def fused(module, processor):
    """How many fused multiply-adds a processor makes of a module, and how many the calls of `llvm.fma` in it need at most, by the
    width of its registers.
    """
    if not MULTIPLIES.search(module):
        return 0, 0
    register = PROCESSORS[processor][2]
    needed = sum(-(-int(count or 1) * int(bits) // register) for count, bits in EXPLICIT.findall(module))
    return len(FUSED.findall(assembly(module, processor))), needed
