"""A report as one HTML file: charts, tables, text, and the style and script they need."""
