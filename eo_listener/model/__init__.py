"""Shared by all parts: values, protocols and formats. Imports only errors and offsets besides."""
