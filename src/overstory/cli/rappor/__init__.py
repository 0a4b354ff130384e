"""Commands over RAPPOR's own files, and over the papers."""
