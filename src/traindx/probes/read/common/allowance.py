"""Leave to do more than the step asks for: by count, often at first and then more and more rarely."""

from __future__ import annotations


class Allowance:
    """Grants work `burst` times in a row, then pauses. The pauses grow by one burst in eight, up to `rarest` bursts.

    Bursts matter: whether a batch equals the one before it is only known when both were looked at.

    >>> allowance = Allowance(burst=2, rarest=3)
    >>> "".join("x" if allowance.granted() else "." for _ in range(60))
    'xxxxxxxxxxxxxxxx..xx..xx..xx..xx..xx..xx..xx..xx....xx....xx'
    """

    def __init__(self, burst: int = 4, rarest: int = 64) -> None:
        self._burst, self._rarest = burst, rarest
        self._asked = 0
        self._turn = self._next = 0  # bursts that were granted or not, and the next that is granted

    def granted(self) -> bool:
        """Whether the work may be done this time."""
        turn = self._asked // self._burst
        self._asked += 1
        if turn > self._next:
            self._turn += 1
            self._next += min(1 + self._turn // 8, self._rarest)
        return turn == self._next
