"""Counting more reports than one process should: units of files, counted anywhere, each taken once.

A *unit* is some row groups of a Parquet file, or some batches of packed reports. A worker opens its unit itself, counts
it, and returns the counts. What runs the workers is an *engine*: processes of this machine, Dask, Spark, or any object
with one method,

    map(job, units) -> iterator of (number of the unit, bytes)

in which the bytes are what `overstory.engines.reducer.count_unit` returned for that unit. An engine may count a unit
twice, or in any order: `overstory.engines.driver.count` takes each number once, and fails when one is missing.
"""
