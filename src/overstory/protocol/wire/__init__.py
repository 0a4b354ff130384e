"""What travels between a device and a collector: batches, uploads, reasons of refusal."""
