"""Run both twins of each pair of launches.cu, a library, and print the verdicts that are wrong: launches.py LIBRARY"""

import ctypes
import sys

import emulator
from emulator.host.session import emulated_host


class Pair(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("expected", ctypes.c_char_p),
        ("run", ctypes.c_void_p),
    )


def reports(library: ctypes.CDLL, number: int, safe: bool) -> list[str]:
    with emulated_host(), emulator.emulate() as device:
        library.run(number, safe)
        device.error = None
        return [type(failure.error).__name__ for failure in device.failures]


def main() -> None:
    with emulated_host(), emulator.emulate():
        library = ctypes.CDLL(sys.argv[1])
    library.pair.restype = ctypes.POINTER(Pair)
    number = 0
    while found := library.pair(number):
        name, expected = found[0].name.decode(), found[0].expected.decode()
        for safe in (True, False):
            said = reports(library, number, safe)
            if said[:1] != [expected] * (not safe):
                print(f"{name} {'safe' if safe else 'hazardous'}: {said}")
        number += 1
    print(number, "pairs")


main()
