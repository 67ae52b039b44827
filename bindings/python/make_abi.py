#!/usr/bin/env python3
"""Generates doppler/_abi.py: ctypes declarations of the headers of libdoppler and libdopplerc.

usage: make_abi.py HEADER... >doppler/_abi.py

The headers are the only definition of structures and functions.  They must be formatted by clang-format and have no macros in
declarations; this script reads nothing else.  A test compares the result with the file in the tree, and the layout of structures in
C with the layout in ctypes.
"""
import re
import sys

SCALARS = {
    "bool": "c_bool", "char": "c_char", "float": "c_float", "double": "c_double", "int": "c_int", "unsigned": "c_uint",
    "long": "c_long", "int32_t": "c_int32", "uint8_t": "c_uint8", "uint32_t": "c_uint32", "uint64_t": "c_uint64", "size_t": "c_size_t",
}


class Reader:
    def __init__(self):
        self.structs, self.enums, self.functions, self.callbacks, self.opaque = {}, set(), {}, {}, set()
        self.constants, self.order = {}, []

    def type_of(self, base, stars, measured=False):
        """Returns the ctypes expression of a C type.  base: its name without `const`; stars: number of `*` after it.  measured: its
        length is a separate member, so the text may have NULs and must not be converted to a Python object automatically."""
        if base == "char" and stars:
            inner = "POINTER(c_char)" if measured else "c_char_p" if stars == 1 else "c_void_p"
            stars -= 1 if stars == 1 or measured else 2
            return self.pointer(inner, max(stars, 0)) if inner != "c_void_p" else self.pointer("c_void_p", stars + 1)
        if base == "void" or base in self.opaque:
            if not stars:
                return "None"
            return self.pointer("c_void_p", stars - 1)
        if base in self.callbacks:
            return base
        if base in self.enums:
            return self.pointer("c_int", stars)
        if base in self.structs:
            return self.pointer(base, stars)
        if base in SCALARS:
            return self.pointer(SCALARS[base], stars)
        raise SystemExit(f"make_abi.py: unknown type {base}")

    @staticmethod
    def pointer(inner, stars):
        for _ in range(stars):
            inner = f"POINTER({inner})"
        return inner

    @staticmethod
    def split(declaration):
        """Returns the type's name and the declarators of a declaration like `const char *a, *b`."""
        words = re.sub(r"\b(const|struct|enum)\b", " ", declaration).strip()
        match = re.match(r"(\w+)\s*(.*)$", words, re.S)
        return match.group(1), [d.strip() for d in match.group(2).split(",")]

    def fields(self, body):
        found = []
        for declaration in filter(None, (part.strip() for part in body.split(";"))):
            texts = re.match(r"const char \*const \*(.*)$", declaration)  # lists of texts
            if texts:
                found += [(name.replace("*const *", "").strip(), "texts", 0, None) for name in texts.group(1).split(",")]
                continue
            function = re.match(r"(\w+) \(\*(\w+)\)\((.*)\)$", declaration)
            if function:
                result = "None" if function.group(1) == "void" else self.type_of(function.group(1), 0)
                kinds = ", ".join([result] + self.parameters(function.group(3)))
                found.append((function.group(2), f"CFUNCTYPE({kinds})", 0, None))
                continue
            base, declarators = self.split(declaration)
            for declarator in declarators:
                match = re.match(r"([*\s]*)(\w+)(?:\[(\d+)\])?$", declarator)
                found.append((match.group(2), base, match.group(1).count("*"), match.group(3)))
        made = []
        for at, (name, base, stars, size) in enumerate(found):
            measured = at + 1 < len(found) and found[at + 1][0] == "len"
            kind = base if "(" in base else "POINTER(c_char_p)" if base == "texts" else self.type_of(base, stars, measured)
            made.append((name, f"{kind} * {size}" if size else kind))
        return made

    def parameters(self, text):
        if text.strip() == "void":
            return []
        kinds = []
        for part in text.split(","):
            if re.search(r"\*const \*", part):  # lists of texts, or of objects
                base = self.split(part)[0]
                kinds.append("POINTER(c_char_p)" if base == "char" else "POINTER(c_void_p)")
                continue
            base, declarators = self.split(part)
            kinds.append(self.type_of(base, declarators[0].count("*")))
        return kinds

    def enumerators(self, body):
        value = -1
        for part in filter(None, (p.strip() for p in body.split(","))):
            name, _, given = (p.strip() for p in part.partition("="))
            value = eval(given, {}, dict(self.constants)) if given else value + 1
            self.constants[name] = value

    def statement(self, text):
        text = " ".join(text.split())
        if match := re.match(r"typedef struct (\w+) \{(.*)\} (\w+)$", text):
            self.structs[match.group(3)] = None
            self.structs[match.group(3)] = self.fields(match.group(2))
            self.order.append(match.group(3))
        elif match := re.match(r"(?:typedef )?struct (\w+)(?: \w+)?$", text):
            self.opaque.add(match.group(1))
        elif match := re.match(r"typedef enum (\w+) \{(.*)\} \w+$", text):
            self.enums.add(match.group(1))
            self.enumerators(match.group(2))
        elif match := re.match(r"enum \{(.*)\}$", text):
            self.enumerators(match.group(1))
        elif match := re.match(r"typedef (.+?)(\w+)\((.*)\)$", text):
            base, declarators = self.split(match.group(1) + " ")
            result = self.type_of(base, declarators[0].count("*"))
            self.callbacks[match.group(2)] = None
            self.callbacks[match.group(2)] = [result] + self.parameters(match.group(3))
            self.order.append(match.group(2))
        elif match := re.match(r"(.+?)\b(dop_\w+)\((.*)\)$", text):
            if "*const *" in match.group(1):
                result = "POINTER(c_char_p)"
            else:
                base, declarators = self.split(match.group(1) + " ")
                result = self.type_of(base, declarators[0].count("*"))
                if result == "c_char_p" and (not match.group(1).startswith("const") or "*out_len" in match.group(3)):
                    result = "c_void_p"
            self.functions[match.group(2)] = (result, self.parameters(match.group(3)))
        elif text:
            raise SystemExit(f"make_abi.py: not understood: {text}")

    def header(self, text):
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        text = re.sub(r'#ifdef __cplusplus\n.*?#endif', " ", text, flags=re.S)
        text = re.sub(r"^#.*$", " ", text, flags=re.M)
        depth, start = 0, 0
        for at, letter in enumerate(text):
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if letter == ";" and depth == 0:
                self.statement(text[start:at])
                start = at + 1

    def write(self):
        print('"""The interface of libdoppler and libdopplerc: made from their headers by make_abi.py, not to be edited."""')
        print("from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_long,")
        print("                    c_size_t, c_uint, c_uint32, c_uint64, c_uint8, c_void_p)")
        print("from typing import Any, Dict, List, Tuple\n")
        for name, value in self.constants.items():
            print(f"{name} = {value}")
        for name in self.order:
            if name in self.callbacks:
                print(f"\n{name} = CFUNCTYPE({', '.join(self.callbacks[name])})\n")
                continue
            print(f"\nclass {name}(Structure):")
            print("    _fields_ = [")
            for field, kind in self.structs[name]:
                print(f'        ("{field}", {kind}),')
            print("    ]\n")
        print("\n# The result and parameters of each function")
        print("FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {")
        for name, (result, parameters) in self.functions.items():
            print(f'    "{name}": ({result}, [{", ".join(parameters)}]),')
        print("}")


reader = Reader()
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        reader.header(file.read())
reader.write()
