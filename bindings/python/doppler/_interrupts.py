"""Delays Ctrl-C while the library runs.

Python runs the handler of SIGINT between two instructions of the main thread, and the handler may raise an exception there.  That may be
inside a callback of the library, before the callback can catch it, or after a call, before its result is stored.  So the handler is delayed
until the library call is complete."""
import signal
import sys
import threading
from typing import Any


class Interrupts:
    """Context manager that records SIGINT and runs its handler at exit.  Has no effect in other threads than the main one."""

    def __init__(self) -> None:
        self._depth = 0
        self._noted = False
        self._handler: Any = None

    @staticmethod
    def here() -> bool:
        """True in the main thread, which Python interrupts."""
        return threading.current_thread() is threading.main_thread()

    def _note(self, *_: Any) -> None:
        self._noted = True

    def __enter__(self) -> None:
        if not self.here():
            return
        if self._depth == 0:
            self._noted = False
            self._handler = signal.getsignal(signal.SIGINT)
            if callable(self._handler):
                signal.signal(signal.SIGINT, self._note)
        self._depth += 1

    def __exit__(self, *_: Any) -> None:
        if not self.here():
            return
        self._depth -= 1
        if self._depth == 0 and callable(self._handler):
            signal.signal(signal.SIGINT, self._handler)
            self.raise_now()

    def raise_now(self) -> None:
        """Runs the handler of a recorded interrupt, which usually raises KeyboardInterrupt."""
        if self.here() and self._noted:
            self._noted = False
            self._handler(signal.SIGINT, sys._getframe())

    def depth(self) -> int:
        return self._depth if self.here() else 0

    def allow(self, depth: int) -> None:
        """Lets a callback of the application be interrupted as usual, until note_again()."""
        if depth > 0:
            self._depth = 0
            if callable(self._handler):
                signal.signal(signal.SIGINT, self._handler)
            self.raise_now()

    def note_again(self, depth: int) -> None:
        if depth > 0 and self._depth == 0:
            self.__enter__()
            self._depth = depth


INTERRUPTS = Interrupts()
