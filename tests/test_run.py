"""The waist of the hourglass."""

import numpy as np
import pytest

from runs import a_run
from traindx.run import Event, Matrix, Run, Series


def test_a_list_is_a_series_and_a_dict_is_a_matrix() -> None:
    run = Run.of({"loss/train": [3.0, 2.0], "grad_norm/param": {"w": [1.0, 2.0], "b": [0.0, 0.0]}})
    assert isinstance(run["loss/train"], Series) and run["loss/train"].last == 2.0
    assert isinstance(run["grad_norm/param"], Matrix)
    assert run["grad_norm/param"].column("w").values.tolist() == [1.0, 2.0]


def test_steps_and_values_must_match() -> None:
    with pytest.raises(ValueError, match="as many steps as values"):
        Series(np.arange(3), np.zeros(2))


def test_equality_counts_nan_as_itself() -> None:
    assert a_run(loss__train=[1.0, np.nan]) == a_run(loss__train=[1.0, np.nan])
    assert a_run(loss__train=[1.0, np.nan]) != a_run(loss__train=[1.0, 2.0])


def test_between_cuts_signals_and_events() -> None:
    run = a_run(loss__train=np.arange(10.0), events=[Event(2, "mode"), Event(8, "mode")]).between(3, 9)
    assert run["loss/train"].steps.tolist() == list(range(3, 10))
    assert [e.step for e in run.events] == [8]


def test_the_later_incarnation_is_believed_where_steps_go_back() -> None:
    first, second = a_run(loss__train=np.full(10, 1.0)), a_run(loss__train=np.full(10, 2.0), steps=np.arange(6, 16))
    joined = first.then(second)
    assert joined["loss/train"].steps.tolist() == list(range(16))
    assert joined["loss/train"].values[5] == 1.0 and joined["loss/train"].values[6] == 2.0
    [seam] = joined.events_of("resume")
    assert seam.step == 6 and seam.data["steps_repeated"] == 4


def test_joining_matrices_keeps_every_name() -> None:
    a = a_run(grad_norm__param={"w": [1.0]})
    b = a_run(grad_norm__param={"head": [2.0]}, steps=[1])
    joined = a.then(b)["grad_norm/param"]
    assert joined.names == ("w", "head")
    assert np.isnan(joined.values[0, 1]) and joined.values[1, 1] == 2.0


def test_the_latest_known_value_at_a_step() -> None:
    lr = Series([0, 10], [0.1, 0.01])
    assert lr.at([-1, 0, 5, 10, 99]).tolist()[1:] == [0.1, 0.1, 0.01, 0.01]
    assert np.isnan(lr.at([-1])[0])


def test_a_frame_with_a_step_column() -> None:
    pandas = pytest.importorskip("pandas")
    run = Run.from_frame(pandas.DataFrame({"step": [5, 6], "loss/train": [1.0, 0.5], "note": ["a", "b"]}))
    assert run["loss/train"].steps.tolist() == [5, 6]
    assert "note" not in run


def test_records_given_out_of_order_are_sorted() -> None:
    run = Run.of({"loss/train": [1.0, 3.0, 2.0], "lr/group": {"a": [1.0, 3.0, 2.0]}}, steps=[9, 3, 5])
    assert run["loss/train"].steps.tolist() == [3, 5, 9] and run["loss/train"].last == 1.0 and run.steps == (3, 9)
    assert run["lr/group"].column("a").values.tolist() == [3.0, 2.0, 1.0]


def test_times_must_match_steps() -> None:
    with pytest.raises(ValueError, match="as many times as steps"):
        Series(np.arange(3), np.zeros(3), np.zeros(2))
