"""Stores that take a batch's rows and its ledger entry in one transaction, a package a store."""
