"""The engines that reckon the reports: DuckDB in this process, Spark for fleets, and what a report may ask of either."""
