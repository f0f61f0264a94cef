from bench.draw.sweep import lines, x_axis


def run(name: str, rate: float) -> dict[str, object]:
    return {"name": name, "results": {"rows_per_s": rate}}


def test_a_field_that_goes_along_with_the_axis_makes_no_lines_of_its_own() -> None:
    runs = [
        run("sweep payload=32,workers=1", 9.0),
        run("sweep payload=32,workers=2", 8.0),
        run("sweep payload=256,workers=1,batch_rows=4096", 5.0),
        run("sweep payload=256,workers=2,batch_rows=4096", 4.0),
        run("sweep payload=1024,workers=1,batch_rows=1024", 3.0),
        run("sweep payload=1024,workers=2,batch_rows=1024", 2.0),
    ]
    assert x_axis(runs) == "payload"
    assert lines(runs, "payload", "rows_per_s") == {
        "workers 1": [(32.0, 9.0), (256.0, 5.0), (1024.0, 3.0)],
        "workers 2": [(32.0, 8.0), (256.0, 4.0), (1024.0, 2.0)],
    }
