"""Computes with Spark what the examples ``linear_road`` and ``linear_road_routing`` must say, by their definitions.

The rows of the dataset must be without errors. Mean speeds are added as doubles, so they are equal but for rounding. A
threshold is compared with the rounded mean.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIGITS = 9  # behind which a mean speed is not compared

REPORTS = """
select *, Time div 60 as minute,
       lag(Time) over car as before,
       not (lag(XWay) over car <=> XWay and lag(Dir) over car <=> Dir and lag(Seg) over car <=> Seg) as enters,
       not (lag(XWay) over car <=> XWay and lag(Dir) over car <=> Dir and lag(Lane) over car <=> Lane
            and lag(Pos) over car <=> Pos) as moves
from input where Type = 0 window car as (partition by VID order by Time)
"""
MINUTES = """
select XWay, Dir, Seg, minute, avg(speed) as speed, count(*) as cars
from (select XWay, Dir, Seg, minute, VID, avg(Spd) as speed from reports group by all) group by all
"""
STANDING = """
select XWay, Dir, Lane, Seg, Pos, VID, explode(sequence(Time, Time + 29)) as second from (
  select *, row_number() over (partition by VID, stand order by Time) as number
  from (select *, count_if(moves) over (partition by VID order by Time) as stand from reports)
) where number >= 4
"""
WRECKS = """
select XWay, Dir, Lane, Seg, Pos, second from standing group by all having count(distinct VID) > 1
"""
ACCIDENTS = """
select XWay, Dir, Lane, Seg, Pos, min(second), max(second) + 1 from (
  select *, second - row_number() over (partition by XWay, Dir, Lane, Seg, Pos order by second) as island from wrecks
) group by XWay, Dir, Lane, Seg, Pos, island
"""
BLOCKED = """
select distinct XWay, Dir, if(Dir = 0, Seg - n, Seg + n) as Seg, second div 60 as minute
from wrecks lateral view explode(sequence(0, 4)) as n
"""
TOLLS = """
select VID, Time, XWay, Dir, Seg, lav, n,
       if(lav < 40 and n > 50 and not is_blocked, 2 * (n - 50) * (n - 50), 0) as toll
from (
  select c.VID, c.Time, c.XWay, c.Dir, c.Seg, round(coalesce(avg(m.speed), 0), {digits}) as lav,
         coalesce(max(if(m.minute = c.minute - 1, m.cars, 0)), 0) as n, max(b.minute) is not null as is_blocked
  from reports c
  left join minutes m on m.XWay = c.XWay and m.Dir = c.Dir and m.Seg = c.Seg
                      and m.minute between c.minute - 5 and c.minute - 1
  left join blocked b on b.XWay = c.XWay and b.Dir = c.Dir and b.Seg = c.Seg and b.minute = c.minute - 1
  where c.enters and c.Lane <> 4 group by c.VID, c.Time, c.XWay, c.Dir, c.Seg
)
"""
BALANCES = """
select q.QID, q.VID, q.Time, coalesce(sum(t.toll), 0) from input q
left join tolls t on t.VID = q.VID and t.Time <= q.Time
where q.Type = 2 group by q.QID, q.VID, q.Time
"""
EXPENDITURES = """
select q.QID, q.VID, q.Time, q.XWay, q.Day, coalesce(sum(t.toll), 0) from input q
left join tolls t on t.VID = q.VID and t.XWay = q.XWay and t.Time <= q.Time and q.Day = 0
where q.Type = 3 group by q.QID, q.VID, q.Time, q.XWay, q.Day
"""
NOTIFICATIONS = """
select branch, VID, if(branch = 1, before, Time) as Time, 0 from reports
lateral view explode(array(0, 1, 2)) as branch where branch <> 1 or before is not null
"""
VIEWS = {
    "reports": REPORTS, "minutes": MINUTES, "standing": STANDING, "wrecks": WRECKS, "blocked": BLOCKED,
    "tolls": TOLLS.format(digits=DIGITS),
}  # fmt: skip
KEPT = ("reports", "wrecks", "tolls")  # read by more than one query


def answers(spark: "SparkSession", folder: Path) -> dict[str, "DataFrame"]:
    """Return the rows of the four outputs of ``linear_road`` by their folders.

    What several queries read is cached until ``spark.catalog.clearCache()``.
    """
    _view(spark, folder, *VIEWS)
    queries = {"accidents": ACCIDENTS, "balances": BALANCES, "expenditures": EXPENDITURES}
    return {"tolls": spark.table("tolls")} | {name: spark.sql(query) for name, query in queries.items()}


def notifications(spark: "SparkSession", folder: Path) -> "DataFrame":
    """Return the rows of ``linear_road_routing``: ``branch, VID, Time, toll``."""
    _view(spark, folder, "reports")
    return spark.sql(NOTIFICATIONS)


def _view(spark: "SparkSession", folder: Path, *names: str) -> None:
    spark.read.parquet(str(folder)).createOrReplaceTempView("input")
    for name in names:
        found = spark.sql(VIEWS[name])
        (found.cache() if name in KEPT else found).createOrReplaceTempView(name)
