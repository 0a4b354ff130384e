"""Estimates as tables: columns of data frames in, rows and text out."""
