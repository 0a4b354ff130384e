"""Commands that run and look after collectors and gateways."""
