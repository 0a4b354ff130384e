"""Files: the RAPPOR analysis formats, packed batches and Parquet. Read in streams, written completely or not at all."""
