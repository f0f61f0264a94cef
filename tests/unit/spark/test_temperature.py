import pyarrow as pa
import pyarrow.compute as pc

from penstock_spark import temperature

REQUEST = temperature.TemperatureRequest(rows=10_001, files=4)


def tables() -> list[pa.Table]:
    return [temperature.rows_of(REQUEST, number) for number in range(REQUEST.files)]


def test_files_share_the_rows_and_repeat_exactly() -> None:
    made = tables()
    assert [t.num_rows for t in made] == [2501, 2500, 2500, 2500]
    assert all(a.equals(b) for a, b in zip(made, tables(), strict=True))
    assert not made[1].equals(made[2])


def test_all_motes_report_in_every_file() -> None:
    assert all(pc.count_distinct(t["mote"]).as_py() == REQUEST.motes for t in tables())


def test_some_rows_are_out_of_order_and_a_few_beyond_the_bound() -> None:
    table = tables()[0]
    times = table["ts"].cast(pa.int64()).to_numpy()
    disorder = [0] + [int(max(0, times[:i].max() - times[i])) for i in range(1, len(times))]
    beyond = sum(d > REQUEST.bound_us for d in disorder)
    assert 0 < beyond < 0.02 * len(times)
    assert sum(d > 0 for d in disorder) > 0.2 * len(times)


def test_sums_are_exact_in_any_order() -> None:
    values = tables()[0]["temperature"].to_numpy() * 64
    assert (values == values.round()).all()
