"""Files: the RAPPOR analysis formats and Parquet. Read in streams, written completely or not at all."""
