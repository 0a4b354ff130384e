"""From a request's body to reports that can be counted."""
