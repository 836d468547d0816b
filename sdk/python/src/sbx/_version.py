"""Versions."""

# Of this package.
SDK_VERSION = "0.1.0"
# Of the API that it speaks (docs/guides/integrators.md).
API_VERSION = "1"
