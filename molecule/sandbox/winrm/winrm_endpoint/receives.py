"""The answers to one command's Receive requests."""

import threading
from collections import OrderedDict

from .soap import Fault

REMEMBERED = 2


class Receives:
    """Windows keeps the answer to a Receive by its message id, so that a client whose connection was cut asks again with the same id and
    loses nothing. While the first is still being answered the second is refused; one with another id waits for its turn."""

    def __init__(self):
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._pending: set = set()
        self._answers: OrderedDict = OrderedDict()

    def answer(self, message_id: str, make) -> bytes:
        if not message_id:
            with self._turn:
                return make()
        with self._lock:
            if message_id in self._answers:
                return self._answers[message_id]
            if message_id in self._pending:
                raise Fault(1359, "w:InternalError", "An internal error occurred. ", sender=False)
            self._pending.add(message_id)
        try:
            with self._turn:
                made = make()
            with self._lock:
                self._answers[message_id] = made
                while len(self._answers) > REMEMBERED:
                    self._answers.popitem(last=False)
            return made
        finally:
            with self._lock:
                self._pending.discard(message_id)
