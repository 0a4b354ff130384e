"""Files: the RAPPOR analysis formats, packed batches and Parquet. Read in streams, written whole or not at all."""
