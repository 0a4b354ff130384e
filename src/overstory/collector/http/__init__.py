"""Requests and answers: connections, endpoints, pages."""
