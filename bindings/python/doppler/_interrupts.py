"""Ctrl-C while the library is at work.

Python runs the handler of SIGINT between two instructions of the main thread, and lets it raise there: within a function that the library
calls, before that function can catch anything, or after a call, before its result is kept.  So it waits meanwhile."""
import signal
import sys
import threading
from typing import Any


class Interrupts:
    """`with` this, SIGINT is noted, and its handler runs behind.  Other threads than the main one are not concerned."""

    def __init__(self) -> None:
        self._depth = 0
        self._noted = False
        self._handler: Any = None

    @staticmethod
    def here() -> bool:
        """Whether this is the thread that Python interrupts."""
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
        """Runs the handler of an interrupt that was noted, which raises KeyboardInterrupt as a rule."""
        if self.here() and self._noted:
            self._noted = False
            self._handler(signal.SIGINT, sys._getframe())

    def depth(self) -> int:
        return self._depth if self.here() else 0

    def allow(self, depth: int) -> None:
        """For a function of the caller's, which is interrupted as others are, until note_again()."""
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
