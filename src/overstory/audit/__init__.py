"""A black-box audit of a client, in any language, against its declared parameters."""
