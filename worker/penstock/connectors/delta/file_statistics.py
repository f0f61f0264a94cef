"""What a reader of a table may know of a file without opening it, from the file's footer.

Only of columns whose least and largest value are exact: a float may be NaN, and a long text is cut.
"""

import json
from datetime import date

import pyarrow.parquet as pq

TEXT_CHARS_MAX = 32


def statistics_of(footer: pq.FileMetaData) -> str:
    """Return the statistics of a file, as Delta Lake writes them."""
    least: dict[str, object] = {}
    largest: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for index in range(footer.num_columns):
        groups = [footer.row_group(group).column(index) for group in range(footer.num_row_groups)]
        name, found = groups[0].path_in_schema, [group.statistics for group in groups]
        if any(each is None or not each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        bounds = [(each.min, each.max) for each in found if each.has_min_max]
        if bounds and all(_is_exact(value) for pair in bounds for value in pair):
            least[name] = _plain(min(low for low, _ in bounds))
            largest[name] = _plain(max(high for _, high in bounds))
    found_all = {"numRecords": footer.num_rows, "minValues": least, "maxValues": largest, "nullCount": nulls}
    return json.dumps(found_all, ensure_ascii=False)


def _is_exact(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= TEXT_CHARS_MAX
    return type(value) in (int, date)


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value
