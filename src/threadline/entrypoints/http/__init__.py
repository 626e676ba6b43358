"""The HTTP entrance: OpenAPI 3.1, problems with stable codes, bearer tokens."""
