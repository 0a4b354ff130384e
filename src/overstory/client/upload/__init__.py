"""From the outbox to a collector: requests, retries and rounds of sending."""
