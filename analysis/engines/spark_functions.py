"""The functions of Spark's SQL that DuckDB calls otherwise, or that do otherwise there: said as DuckDB's macros.

These, and how an engine is asked to sort nulls, are all that differs between the two for the SQL of the reports.
"""

from __future__ import annotations

SPARK_FUNCTIONS = {
    # Times: without a zone here, and UTC.
    "to_date(moment)": "CAST(moment AS DATE)",
    "unix_seconds(moment)": "epoch_us(moment) // 1000000",
    "unix_millis(moment)": "epoch_us(moment) // 1000",
    "unix_micros(moment)": "epoch_us(moment)",
    "timestamp_seconds(seconds)": "make_timestamp(CAST(seconds * 1000000 AS BIGINT))",
    "timestamp_micros(micros)": "make_timestamp(CAST(micros AS BIGINT))",
    # Of several rows the one where ``key`` is most, though its value is null: DuckDB's own take the next that has one.
    "max_by(value, key)": "arg_max_null(value, key)",
    "min_by(value, key)": "arg_min_null(value, key)",
    "struct(first, second)": "row(first, second)",
    "try_divide(part, whole)": "CASE WHEN whole = 0 THEN NULL ELSE CAST(part AS DOUBLE) / whole END",
    # Lists and JSON; all JSON that is taken apart is a list of ranges.
    "explode(items)": "unnest(items)",
    "get(items, place)": "items[place + 1]",
    "collect_set(item)": "list(DISTINCT item)",
    "array_sort(items)": "list_sort(items)",
    "array_join(items, separator)": "array_to_string(items, separator)",
    "slice(items, first, count)": "list_slice(items, first, first + count - 1)",
    "from_json(text, kind)": """json_transform(text, '[["BIGINT"]]')""",
    "get_json_object(text, path)": "json_extract_string(text, path)",
}
