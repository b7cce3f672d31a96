"""The course of a run: has it learned, how did it end, what can be had. Rules, severity and verdict ask here."""

from traindx.course.ended import Ended, ended
from traindx.course.learned import SOME, Learned, State, learned

__all__ = ["SOME", "Ended", "Learned", "State", "ended", "learned"]
