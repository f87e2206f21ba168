"""Kafka as the target: rows and ledger in one transaction. Not there yet, only its decisions.

`batch_transaction` has the order of a batch's steps and what is compared between them. Nothing here
speaks to Kafka yet, and no sink is exported.
"""
